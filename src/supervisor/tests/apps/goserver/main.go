// A static Go server: no libc that anything could be loaded into.
package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, os.Getpid()) })
	panic(http.ListenAndServe(":"+os.Getenv("PORT"), nil))
}
