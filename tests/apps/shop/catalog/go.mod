module catalog

go 1.18
