module github.com/duehook/duehook/client

go 1.24
