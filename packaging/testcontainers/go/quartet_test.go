package quartet

import (
	"strings"
	"testing"
)

func TestTheRequestAsksForEveryLayer(t *testing.T) {
	request := Request("")
	if request.Image != Image || len(request.ExposedPorts) != 5 || request.WaitingFor == nil {
		t.Fatalf("%+v", request)
	}
	if strings.Join(request.Cmd, " ") != "serve --data memory" {
		t.Fatal(request.Cmd)
	}
}

func TestTheKeyIsReadFromTheOutput(t *testing.T) {
	key, err := KeyOf(strings.NewReader("DATA ARE IN MEMORY ONLY\nroot key, shown this once: qk_1\nready\n"))
	if err != nil || key != "qk_1" {
		t.Fatal(key, err)
	}
	if _, err := KeyOf(strings.NewReader("ready\n")); err == nil {
		t.Fatal("a key was found where none is")
	}
}
