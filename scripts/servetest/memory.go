//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	memoryEarly = 10 * time.Second // what a test has taken by then it may take
	memoryMost  = 24 << 10         // kB that it may take more by its end
)

// memory runs long tests of the kinds that once grew, both ends on this host, and looks how much memory their processes
// take early and late.
func memory(ctx context.Context, gobw string, each time.Duration, only string) error {
	seconds := strconv.Itoa(int(each.Seconds()) + 60) // the report at the end is no growth
	link := filepath.Join(filepath.Dir(gobw), "ib_write_bw")
	_ = os.Remove(link)
	if err := os.Symlink(gobw, link); err != nil {
		return err
	}
	defer func() { _ = os.Remove(link) }()
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i, commands := range [][]string{
		{gobw + " write --loopback -d roce0 -s 64 --verify=all -n 500000000 --cpu none --quiet"},
		{gobw + " write --loopback -d roce0 -s 65536 -D " + seconds + " --cpu none --quiet"},
		{gobw + " write --loopback -d roce0 -s 1M -n 24576 --emulate loss=1% --cpu none --quiet"},
		{
			link + " -d roce0 -p 18599 --run_infinitely -D 1 -s 4096 -F",
			link + " -d roce0 -p 18599 --run_infinitely -D 1 -s 4096 -F 127.0.0.1",
		},
	} {
		if strings.Contains(commands[0], only) {
			wg.Go(func() { errs[i] = watchMemory(ctx, commands, each) })
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// watchMemory starts commands one after another and watches them and their children for a time, or until the first has ended.
func watchMemory(ctx context.Context, commands []string, each time.Duration) error {
	started := time.Now()
	var all []*exec.Cmd
	var said bytes.Buffer
	for _, line := range commands {
		words := strings.Fields(line)
		c := exec.Command(words[0], words[1:]...)
		c.Stderr = &said
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			return err
		}
		all = append(all, c)
		time.Sleep(time.Second / 2)
	}
	ended := make(chan error, 1)
	go func() { ended <- all[0].Wait() }()
	defer func() {
		for i, c := range all {
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			if i > 0 {
				_ = c.Wait()
			}
		}
	}()
	early, late := map[int]int{}, map[int]int{}
	for end := false; !end && time.Since(started) < each && ctx.Err() == nil; {
		select {
		case err := <-ended:
			if err != nil {
				return fmt.Errorf("%s: %w: %s", commands[0], err, said.String())
			}
			end = true
		case <-time.After(time.Second):
		}
		into := late
		if time.Since(started) < memoryEarly {
			into = early
		}
		for _, c := range all {
			for _, pid := range append(childrenOf(c.Process.Pid), c.Process.Pid) {
				if kB := statusOf(pid).rssKB; kB > 0 {
					into[pid] = kB
				}
			}
		}
	}
	if len(late) == 0 {
		return fmt.Errorf("%s: it ended before: %s", commands[0], said.String())
	}
	var errs []error
	for pid, kB := range late {
		fmt.Printf("%-110s %8d kB after %v, %8d kB at %v\n", filepath.Base(commands[0]), early[pid], memoryEarly, kB, time.Since(started).Round(time.Second))
		if kB > early[pid]+memoryMost {
			errs = append(errs, fmt.Errorf("%s: grew from %d to %d kB", commands[0], early[pid], kB))
		}
	}
	return errors.Join(errs...)
}
