package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs/verbstest"
)

func TestHello(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var server, client bytes.Buffer
	address := verbstest.Address().String()
	served := make(chan error, 1)
	go func() { served <- run(ctx, []string{"-listen", address + ":18516"}, &server) }()
	err := retry(ctx, func() error { return run(ctx, []string{address + ":18516"}, &client) })
	if err != nil {
		t.Fatalf("client: %v", err)
	}
	if err := <-served; err != nil {
		t.Fatalf("server: %v", err)
	}
	if got, want := server.String(), "in my memory: \"hello, verbs\"\n"; got != want {
		t.Errorf("server prints %q, want %q", got, want)
	}
	if got, want := client.String(), "wrote \"hello, verbs\" to "+address+"\n"; got != want {
		t.Errorf("client prints %q, want %q", got, want)
	}
}

// retry goes on while the server is not listening yet.
func retry(ctx context.Context, f func() error) error {
	for {
		err := f()
		if err == nil || !strings.Contains(err.Error(), "refused") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestHelloRefusesOtherWords(t *testing.T) {
	for _, args := range [][]string{{"-x"}, {"alpha", "beta"}, {"-listen", "127.6.1.1:1", "more"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "usage: hello") {
			t.Errorf("%q: %v, want the usage", args, err)
		}
	}
}
