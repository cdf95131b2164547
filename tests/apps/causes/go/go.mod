module causes

go 1.17
