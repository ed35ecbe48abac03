#!/bin/bash
# Runs on the login host of scripts/slurm-lab 10, with two rails: bad.sh DIR. What may be wrong with a host, as many things at
# once as hosts allow. DIR has gobw, other/gobw of another version and skewed/gobw with another clock. Leaves NAME.json, NAME.status,
# NAME.err and NAME.N.rank (what rank N said) in DIR.
dir=$1
n=$HOSTS
export dir GOBW_FABRIC_SECRET=known-to-the-job
common=(-d roce0@eth1 --cpu none -s 4K -t 16 --slow 60% --quiet --pattern random)
for i in $(seq "$n"); do nsenter --net="/run/netns/node$i" tc qdisc replace dev eth1 root tbf rate 8mbit burst 8k latency 800ms; done
hosts() { # the names as they should be, but node1's
	grep -v node1$ /etc/hosts
	[ $# = 0 ] || echo "$1 node1"
}
hosts >"$dir/unknown"
hosts 127.0.1.1 >"$dir/loopback"
hosts "$(awk '$2 == "node10" {print $1}' /etc/hosts)" >"$dir/elsewhere"

# with_hosts FILE COMMAND...: resolves names by another file, as that host's /etc/hosts.
# shellcheck disable=SC2016 # the inner shell expands it
with_hosts() { unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$@"; }
# gather is a rank with something wrong from the start.
gather() {
	exec 2>"$dir/gather.$SLURM_PROCID.rank"
	case $SLURMD_NODENAME in
	node2) # a script that starts it twice: the second one when the first has come
		"$dir/gobw" "$@" &
		until grep -q ' 01 ' <(grep -i ' 02004D0A:' /proc/net/tcp /proc/net/tcp6 2>/dev/null) || grep -qi '02004D0A:.* 01 ' /proc/net/tcp; do sleep 0.05; done
		"$dir/gobw" "$@"
		wait
		;;
	node3) exec "$dir/other/gobw" "$@" ;;
	node4) with_hosts "$dir/loopback" "$dir/gobw" "$@" ;;
	node5) with_hosts "$dir/unknown" "$dir/gobw" "$@" ;;
	node6) with_hosts "$dir/elsewhere" "$dir/gobw" "$@" ;;
	node7) exec "$dir/skewed/gobw" "$@" ;;
	node8) exec taskset -c 0 "$dir/gobw" "$@" ;;
	node9) # when the others have begun
		until [ -s "$dir/gather.cells" ]; do sleep 0.05; done
		exec "$dir/gobw" "$@"
		;;
	*) exec "$dir/gobw" "$@" ;;
	esac
}
# late is a rank of a run in which things go wrong later; node2 may be slow to start.
late() {
	[ "$SLURMD_NODENAME" != node2 ] || sleep "${SLOW_START-0}"
	echo $$ >"$dir/pid.$SLURMD_NODENAME"
	exec "$dir/gobw" "$@"
}
export -f gather late with_hosts
lines() { # FILE COUNT: waits until it has so many
	for _ in $(seq 1200); do
		[ "$(wc -l <"$dir/$1" 2>/dev/null || echo 0)" -lt "$2" ] || break
		sleep 0.05
	done
}
run() { # NAME COMMAND...
	local name=$1
	shift
	"$@" --json "$dir/$name.json" >"$dir/$name.out" 2>"$dir/$name.err"
	echo $? >"$dir/$name.status"
}
# shellcheck disable=SC2016 # the ranks' shells expand it
ranks() { # NAME FUNCTION FLAGS...
	local name=$1 function=$2
	shift 2
	run "$name" srun -N"$n" -n"$n" bash -c "$function"' "$@"' rank fabric "${common[@]}" "$@"
}

ranks gather gather --wait 10s --round 0.5s --time 12s --jsonl "$dir/gather.cells"

# Two jobs have one host in common: its device is the first one's. The first lasts until the second is over.
run first srun -N3 -n3 -w 'node[1-3]' "$dir/gobw" fabric "${common[@]}" --round 2s --time 60s --jsonl "$dir/first.cells" &
lines first.cells 4
run second srun -N3 -n3 -w 'node[3-5]' "$dir/gobw" fabric "${common[@]}" --round 0.3s --time 6s
scancel -n gobw
wait

# A rank that crashes under -K ends the job; what was measured is saved, and who has crashed is named.
# shellcheck disable=SC2016 # the ranks' shells expand it
run crash srun -K -N3 -n3 -w 'node[1-3]' bash -c 'late "$@"' rank fabric "${common[@]}" --round 0.5s --time 60s --jsonl "$dir/crash.cells" &
lines crash.cells 8
kill -9 "$(cat "$dir/pid.node2")"
wait

# Everyone with everyone, four times, by the circle method. The file of cells is on a small disk, which is full in the middle; before, one thing after another goes wrong.
for round in $(seq 36); do
	for k in $(seq 0 $((n / 2 - 1))); do
		a=$(((round + k) % (n - 1) + 1)) b=$(((round + n - 1 - k) % (n - 1) + 1))
		[ $a != $b ] || b=$n
		echo "$round node$a node$b"
	done
done >"$dir/rounds"
mkdir "$dir/small"
mount -t tmpfs -o size=24k tmpfs "$dir/small"
SLOW_START=4 ranks late late --wait 60s --pattern custom --custom "$dir/rounds" --round 0.3s --time 60s --jsonl "$dir/small/cells" --html "$dir/small/page" &
lines small/cells 20
ip -n node3 link del eth1
ip -n node7 link set eth1 down
lines small/cells 40
kill -9 "$(cat "$dir/pid.node5")"
kill -STOP "$(cat "$dir/pid.node6")"
lines small/cells 60
silent() { for end in to from; do for net in 77 78; do ip rule "$1" $end 10.$net.0.5 blackhole; done; done; }
silent add
sleep 3
silent del
for _ in $(seq 1200); do [ ! -s "$dir/late.json" ] || break; sleep 0.05; done
kill -9 "$(cat "$dir/pid.node6")" # nothing else ends a process that is stopped
wait
umount "$dir/small"
