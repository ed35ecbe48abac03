module github.com/gobw/gobw

go 1.25.0
