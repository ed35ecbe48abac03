package cli

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

// sickScript makes two hosts (beta serves, alpha looks) with a router between them, makes them sick in one way after
// the other, and prints what doctor says of each: SET-UP|EXIT CODE|TEXT. rules of routing stand for firewalls, which
// not every machine has.
const sickScript = `
set -u
ip link set lo up
on() { ns=$1; shift; ip netns exec $ns "$@"; }
for ns in $A $R $B; do ip netns add $ns; ip -n $ns link set lo up; done
S= H= W=
trap 'kill $S $H $W 2> /dev/null; for ns in $A $R $B; do ip netns delete $ns; done' EXIT
ip link add eth0 netns $A type veth peer name ra netns $R
ip link add eth0 netns $B type veth peer name rb netns $R
for link in "$A eth0 10.9.1.1/24" "$B eth0 10.9.2.1/24" "$R ra 10.9.1.254/24" "$R rb 10.9.2.254/24"; do
	set -- $link
	ip -n $1 addr add $3 dev $2; ip -n $1 link set $2 up mtu 9000
done
ip -n $A route add default via 10.9.1.254; ip -n $B route add default via 10.9.2.254
for ns in $A $B; do ip -n $ns rule add pref 200 lookup local; ip -n $ns rule del pref 0; done # so that rules come before it
on $R sysctl -qw net.ipv4.ip_forward=1
serving() { # WORDS...: until it listens
	rm -f serve.log
	ip netns exec $B gobw serve -d roce0 "$@" 2> serve.log & S=$!
	for i in $(seq 100); do grep -qs serving serve.log && break; sleep 0.1; done
}
quit() { kill $S; wait $S; }
said() { # SET-UP COMMAND...
	setup=$1; shift
	timeout 120 "$@" > out 2>&1; rc=$?
	echo "$setup|$rc|$(tr '\n' ' ' < out | tr -s ' ')"
}
doctor() { setup=$1; shift; said "$setup" ip netns exec $A gobw doctor -d roce0 "$@"; }
BETA=10.9.2.1 PORT_OF_ROCE=:12B7 # of a line of /proc/net/udp
serving
ip netns exec $A gobw write $BETA -d roce0 -n 10 --wait 20s > first 2>&1
doctor "healthy, jumbo frames" $BETA
doctor "healthy, alone"
said "healthy, one host" ip netns exec $B gobw doctor -d roce0 localhost
for link in "$A eth0" "$B eth0" "$R ra" "$R rb"; do set -- $link; ip -n $1 link set $2 mtu 1500; done
doctor "healthy, MTU 1500" $BETA
for link in "$A eth0" "$B eth0"; do set -- $link; ip -n $1 link set $2 mtu 9000; done
on $R sysctl -qw net.ipv4.icmp_ratelimit=0
ip -n $A rule add pref 50 iif eth0 ipproto icmp blackhole; ip -n $B rule add pref 50 iif eth0 ipproto icmp blackhole
doctor "black hole for large packets" $BETA
ip -n $A rule del pref 50 iif eth0 ipproto icmp blackhole; ip -n $B rule del pref 50 iif eth0 ipproto icmp blackhole
for link in "$A eth0" "$B eth0" "$R ra" "$R rb"; do set -- $link; ip -n $1 link set $2 mtu 1500; done
on $A ip route flush cache; on $B ip route flush cache
rule="ipproto udp dport 4791"
ip -n $A rule add pref 50 $rule prohibit; doctor "own firewall refuses" $BETA; ip -n $A rule del pref 50 $rule prohibit
ip -n $B rule add pref 50 iif eth0 $rule blackhole; doctor "beta drops what comes in" $BETA; ip -n $B rule del pref 50 iif eth0 $rule blackhole
ip -n $A rule add pref 50 iif eth0 $rule blackhole; doctor "alpha drops what comes in" $BETA; ip -n $A rule del pref 50 iif eth0 $rule blackhole
ip -n $R rule add pref 50 iif ra $rule blackhole; doctor "the router drops one way" $BETA; ip -n $R rule del pref 50 iif ra $rule blackhole
ip -n $R rule add pref 50 $rule blackhole; doctor "the router drops both ways" $BETA; ip -n $R rule del pref 50 $rule blackhole
rule="ipproto tcp dport 18515"
ip -n $B rule add pref 50 iif eth0 $rule blackhole; doctor "TCP port blocked" $BETA; ip -n $B rule del pref 50 iif eth0 $rule blackhole
doctor "healthy again" $BETA
was=$(grep -c begins serve.log)
ip netns exec $R gobw write $BETA -d roce0 -D 60 > busy 2>&1 & W=$!
for i in $(seq 100); do [ $(grep -c begins serve.log) -gt $was ] && break; sleep 0.1; done
doctor "the server is busy" $BETA
kill -INT $W; wait $W
ip netns exec $B gobw serve -d roce0 -p 18600 2> serve2.log & H=$!
ip netns exec $A gobw write $BETA -d roce0 -D 60 --wait 20s > second 2>&1 & W=$!
for i in $(seq 100); do grep -qs $PORT_OF_ROCE /proc/$W/net/udp && break; sleep 0.1; done
doctor "a second test on this host" $BETA -p 18600
kill -INT $W; wait $W; kill $H; wait $H
quit
doctor "nobody serves" $BETA
doctor "an address that nobody has" 10.9.2.77 
doctor "no such name" no-such-host.invalid
doctor "link-local without interface" fe80::1
ip -n $A route del default; doctor "no route" $BETA; ip -n $A route add default via 10.9.1.254
serving --allow 10.9.3.0/24; doctor "not admitted" $BETA; quit
echo "0123456789abcdef0123456789abcdef" > token; chmod 600 token
serving --token-file token; doctor "no token" $BETA
echo "fedcba9876543210fedcba9876543210" > other; chmod 600 other
doctor "another token" $BETA --token-file other; quit
ip netns exec $B python3 -m http.server 18515 > http 2>&1 & S=$!
for i in $(seq 100); do ip netns exec $B ss -ltnH 'sport = :18515' | grep -q . && break; sleep 0.1; done
doctor "another program on the port" $BETA; kill $S; wait $S
ip netns exec $A python3 -c 'import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("", 4791)); time.sleep(60)' & H=$!
for i in $(seq 100); do grep -q $PORT_OF_ROCE /proc/$H/net/udp && break; sleep 0.1; done
doctor "another program has UDP 4791"; kill $H; wait $H
serving
ip -n $A link set lo down; doctor "loopback down"; ip -n $A link set lo up
ip -n $A link set eth0 down; doctor "interface down" $BETA; ip -n $A link set eth0 up; ip -n $A route add default via 10.9.1.254
if cgroup=$(awk -F: '$2 ~ /(^|,)cpu(,|$)/ {print "/sys/fs/cgroup/" $2 $3 "/sick"}' /proc/self/cgroup | head -n 1) && [ -n "$cgroup" ] && mkdir -p $cgroup 2> cgroup; then
	echo 40000 > $cgroup/cpu.cfs_quota_us
	said "a CPU quota" sh -c 'echo $$ > '$cgroup'/tasks && exec nsenter --net=/run/netns/'$A' gobw doctor -d roce0 '$BETA
	rmdir $cgroup
fi
doctor "healthy at last" $BETA
`

// TestSickSetUps: doctor names what is wrong, and nothing where all is well.
func TestSickSetUps(t *testing.T) {
	testrun.OnlyWhole(t, "28 set-ups take two minutes")
	if testing.Short() {
		t.Skip("short: lost packets take seconds")
	}
	testrun.Need(t, "ip", "nsenter", "python3", "ss", "sysctl")
	if os.Geteuid() != 0 {
		inUserNamespace(t)
		return
	}
	dir := t.TempDir()
	programs(t, dir)
	want := map[string]struct{ says, not string }{
		"healthy, jumbo frames":        {"clean: no problems", ""},
		"healthy, alone":               {"clean: no problems", ""},
		"healthy, one host":            {"clean: no problems", ""},
		"healthy, MTU 1500":            {"path MTU 1024", "problem:"},
		"healthy again":                {"clean: no problems", ""},
		"healthy at last":              {"clean: no problems", ""},
		"black hole for large packets": {"packets of 1024 bytes pass, larger ones are lost on the way", "4791"},
		"own firewall refuses":         {"this host does not let its own packets to UDP port 4791 out", "open UDP"},
		"beta drops what comes in":     {"RoCE packets from here do not arrive at 10.9.2.1", "larger"},
		"alpha drops what comes in":    {"RoCE packets from 10.9.2.1 do not arrive here", "larger"},
		"the router drops one way":     {"RoCE packets from here do not arrive at 10.9.2.1", "larger"},
		"the router drops both ways":   {"no RoCE packet arrives, in neither direction", "larger"},
		"TCP port blocked":             {"does a firewall let this port through?", "4791"},
		"the server is busy":           {"the server is busy", "4791"},
		"nobody serves":                {"nobody serves on 10.9.2.1, TCP port 18515", "4791"},
		"an address that nobody has":   {"connect to 10.9.2.77:18515", "4791"},
		"no such name":                 {"the host", "firewall"},
		"link-local without interface": {"connect to [fe80::1%eth0]:18515", "invalid argument"},
		"no route":                     {"network is unreachable", "4791"},
		"not admitted":                 {"--allow", "4791"},
		"no token":                     {"token", "4791"},
		"another token":                {"token", "4791"},
		"another program on the port":  {"does another program have this port", "4791"},
		"another program has UDP 4791": {" has it: ", "rmmod"},
		"a second test on this host":   {"another test runs on this host", "rmmod"},
		"loopback down":                {"the loopback interface is down", "problem:"},
		"interface down":               {"network is unreachable", "4791"},
		"a CPU quota":                  {"the CPU quota of its control group is 0.4 CPUs", "problem:"},
	}
	pid := strings.ReplaceAll(dir, "/", "")
	pid = pid[max(0, len(pid)-8):]
	cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--net", "--propagation", "slave", "sh", "-c",
		sickScript)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "A=a"+pid, "R=r"+pid, "B=b"+pid)
	var errs bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &errs, time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Logf("the script ended with %v", err)
	}
	seen := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.SplitN(lines.Text(), "|", 3)
		w, known := want[f[0]]
		if len(f) < 3 || !known {
			t.Errorf("a line of the script: %q", lines.Text())
			continue
		}
		seen++
		said := strings.ReplaceAll(f[2], "CPUs in the last minute", "")
		t.Logf("%-30s %s  %s", f[0], f[1], said)
		healthy := strings.HasPrefix(f[0], "healthy")
		busy := strings.Contains(said, "threads used or waited") // A machine that is busy is a finding, too.
		switch {
		case !strings.Contains(said, w.says) && (!healthy || !busy):
			t.Errorf("%s: no %q in: %s", f[0], w.says, said)
		case w.not != "" && strings.Contains(said, w.not):
			t.Errorf("%s: %q in: %s", f[0], w.not, said)
		case healthy && strings.Contains(said, "problem:") || !healthy && f[1] == "0":
			t.Errorf("%s: exit status %s: %s", f[0], f[1], said)
		}
	}
	if seen < len(want)-1 { // Not every machine lets a test set a quota.
		t.Errorf("%d set-ups of %d\n%s", seen, len(want), errs.Bytes())
	}
}
