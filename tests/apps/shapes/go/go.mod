module shapes

go 1.17
