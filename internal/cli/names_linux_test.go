package cli

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

// namesScript tries each way to name this host with each command, in a network of its own with a name service of its
// own. Each line that it prints is a case: the set-up, the name, the command, its exit code, and the last line of what
// it said.
const namesScript = `
set -u
n=0 # names; where not all is tried, two of three tests are of other names
ip link set lo up
ip link add eth0 type veth peer name far
ip link set eth0 up; ip link set far addrgenmode none up
ip addr add 192.0.2.2/24 dev eth0
ip -6 addr add fd00::2/64 dev eth0 nodad
for i in $(seq 50); do
	LL=$(ip -6 addr show dev eth0 scope link -tentative | awk '/inet6/ {sub("/.*", "", $2); print $2}')
	[ -n "$LL" ] && break; sleep 0.1
done
touch hosts; mount --bind hosts /etc/hosts
serve() { # until it listens
	rm -f serve.log
	gobw serve -d roce0 2> serve.log & S=$!
	for i in $(seq 100); do grep -qs serving serve.log && break; sleep 0.1; done
}
tried() { # SET-UP NAME WORDS COMMAND...
	setup=$1 name=$2 words=$3; shift 3
	"$@" > out 2>&1; rc=$?
	echo "$setup|$name|$words|$rc|$(tail -n 1 out)"
}
each() { # SET-UP NAME...
	setup=$1; shift
	serve
	for name; do
		n=$((n + 1))
		[ -n "$WHOLE" ] || [ $((n % 3)) = 1 ] && tried "$setup" "$name" "gobw write" gobw write "$name" -d roce0 -n 100
		[ -n "$WHOLE" ] || [ $((n % 3)) = 2 ] && tried "$setup" "$name" "golat send" golat send "$name" -d roce0 -n 100
		tried "$setup" "$name" "gobw doctor" gobw doctor "$name" -d roce0
	done
	kill $S; wait $S
}
pair() { # SET-UP NAME
	for tool in ib_write_bw ib_send_lat; do
		$tool -d roce0 -n 100 > server 2>&1 & S=$!
		for i in $(seq 100); do ss -ltnH 'sport = :18515' | grep -q . && break; sleep 0.1; done
		tried "$1" "$2" $tool $tool -d roce0 -n 100 "$2"
		wait $S
	done
}
printf '127.0.0.1 localhost\n::1 localhost\n192.0.2.2 me\nfd00::2 me\n' > hosts
each usual localhost 127.0.0.1 127.0.1.1 0.0.0.0 ::1 '[::1]' :: ::ffff:127.0.0.1 192.0.2.2 fd00::2 me "$LL%eth0" "$LL" "[$LL%eth0]"
for name in localhost ::1 192.0.2.2 fd00::2 "$LL%eth0"; do pair usual "$name"; done
serve; tried usual localhost "gobw noncontig" gobw noncontig localhost -d roce0 --blocks 64 -s 4K --runs 1 --shape gather; kill $S; wait $S
gobw serve -d roce0 --listen "[$LL%eth0]:19002" 2> serve.log & S=$!
for i in $(seq 100); do grep -qs serving serve.log && break; sleep 0.1; done
tried "serve --listen [fe80::%eth0]:19002" "$LL%eth0" "gobw write" gobw write "$LL%eth0" -p 19002 -d roce0 -n 100; kill $S; wait $S
printf '::1 localhost\n127.0.0.1 localhost\n' > hosts; each "IPv6 first" localhost
printf '127.0.0.1 localhost\n' > hosts; each "IPv4 alone" localhost
printf '::1 localhost\n' > hosts; each "IPv6 alone" localhost
tried devices roce0@lo "gobw devices" gobw devices roce0@lo
tried devices roce0@eth0 "gobw devices" gobw devices roce0@eth0
ip addr del 127.0.0.1/8 dev lo; serve
echo "lo with ::1 alone|::1|control connection|$(gobw write ::1 -d roce0@fd00::2 -n 100 2>&1 | grep -c 'connect to')|"
kill $S; wait $S
ip link set lo down
tried "lo down" "" "gobw devices" gobw devices
tried "lo down" --loopback "gobw write" gobw write --loopback -d roce0 -n 10
tried "lo down" "" "gobw doctor" gobw doctor -d roce0
`

// TestNamesOfThisHost: every way to name this host works with every command, and under perftest's names. Where not all
// is tried, each name is tried with doctor, and two of three with a test.
func TestNamesOfThisHost(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for seconds")
	}
	testrun.Need(t, "ip", "ss", "unshare")
	dir := t.TempDir()
	programs(t, dir)
	alone := []string{"--mount", "--net"}
	if os.Geteuid() != 0 {
		alone = append([]string{"--user", "--map-root-user"}, alone...)
	}
	if err := exec.CommandContext(t.Context(), "unshare", append(alone, "true")...).Run(); err != nil {
		testrun.Missing(t, "network namespaces: neither root nor user namespaces")
	}
	cmd := exec.CommandContext(t.Context(), "unshare", append(alone, "sh", "-c", namesScript)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"),
		"WHOLE="+os.Getenv(testrun.All))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Logf("the script ended with %v", err)
	}
	refused := map[string]string{ // What is not to work has a text that helps.
		"lo down|--loopback|gobw write": "ip link set lo up",
	}
	lines, cases := bufio.NewScanner(bytes.NewReader(out)), 0
	for lines.Scan() {
		f := strings.SplitN(lines.Text(), "|", 5)
		if len(f) < 5 {
			t.Errorf("a line of the script: %q", lines.Text())
			continue
		}
		cases++
		t.Logf("%-14s %-32s %-20s exit status %s", f[0], f[1], f[2], f[3])
		want, bad := refused[strings.Join(f[:3], "|")]
		switch {
		case bad && (f[3] == "0" || !strings.Contains(f[4], want)):
			t.Errorf("%s: %s %s: exit status %s, %q; want %q", f[0], f[2], f[1], f[3], f[4], want)
		case !bad && f[3] != "0" && f[0]+f[2] != "lo downgobw doctor":
			t.Errorf("%s: %s %s: exit status %s, %q", f[0], f[2], f[1], f[3], f[4])
		case f[0]+f[2] == "lo downgobw doctor" && f[3] != "1":
			t.Errorf("doctor finds nothing where loopback is down: %s, %q", f[3], f[4])
		}
	}
	want := 47
	if testrun.Whole() {
		want = 69
	}
	if cases != want {
		t.Errorf("%d cases\n%s%s", cases, out, errs.Bytes())
	}
}

// programs makes this test binary the programs of a directory.
func programs(t *testing.T, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gobw", "golat", "ib_write_bw", "ib_send_lat"} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
