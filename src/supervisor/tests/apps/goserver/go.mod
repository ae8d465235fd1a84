module goserver

go 1.24
