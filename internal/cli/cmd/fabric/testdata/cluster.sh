#!/bin/bash
# Runs on the login host of scripts/slurm-lab 4, with two rails: cluster.sh DIR, in which gobw is. Leaves NAME.json, NAME.status and
# NAME.err in DIR. What time alone decides is held in virtual time (internal/fabric); here are Slurm, mpirun, real devices and processes.
gobw=$1/gobw dir=$1
export GOBW_FABRIC_SECRET=known-to-the-whole-job
common=(-d roce0 --cpu none -s 1K --slow 30% --quiet)

# Every link is as slow as another, or the two cores that all hosts share would decide who is slow.
shape() { nsenter --net="/run/netns/node$1" tc qdisc replace dev "$2" root tbf rate "$3" burst 8k latency 800ms; }
run() { # NAME COMMAND...
	local name=$1
	shift
	"$@" --save "$dir/$name.json" >"$dir/$name.out" 2>"$dir/$name.err"
	echo $? >"$dir/$name.status"
}
said() { # NAME TEXT: waits until rank 0 has said so
	for _ in $(seq 400); do ! grep -q "$2" "$dir/$1.err" 2>/dev/null || break; sleep 0.05; done
}
snapshots() { # NAME STEP: asks for snapshots until two rounds are done
	for _ in $(seq 400); do
		scancel -s USR1 -n "$2"
		! grep -q 'a snapshot, the run goes on' "$dir/$1.err" || ! grep -qE 'after ([4-9]|[1-9][0-9]+) of [0-9]+ rounds' "$dir/$1.err" || break
		sleep 0.1
	done
}
for i in $(seq 4); do
	shape "$i" eth0 8mbit
	shape "$i" eth1 8mbit
done

# Two rails, each a network of its own; the second one of node3 is slow.
shape 3 eth1 4mbit
run rails srun -K -N4 -n4 "$gobw" fabric "${common[@]}" -d roce0,roce0@eth1 --round 0.4s --time 60s

# A program that is started without srun is told so.
SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 run batch "$gobw" fabric -d roce0

# Two jobs have one host in common: its device is the first one's. The first is cancelled when the second is over: it saves what it has
# and leaves nothing behind.
run cancelled srun -N3 -n3 -w 'node[1-3]' "$gobw" fabric "${common[@]}" --quiet=false --round 0.2s --time 60s &
said cancelled 'round 1 of'
run second srun -N3 -n3 -w 'node[2-4]' "$gobw" fabric "${common[@]}" --round 0.2s --time 2s
snapshots cancelled gobw
scancel -n gobw
wait
left() { # processes, RoCE's sockets, shared memory
	pgrep -x 'gobw|exe'
	for i in $(seq 4); do nsenter --net="/run/netns/node$i" grep -hi ':12B7 ' /proc/net/udp /proc/net/udp6; done
	grep -v key /proc/sysvipc/shm
}
for _ in $(seq 100); do
	left >"$dir/left-behind"
	[ -s "$dir/left-behind" ] || break
	sleep 0.05
done

# A rank that crashes under -K ends the job; what was measured is saved, and who has crashed is named.
# shellcheck disable=SC2016 # the ranks' shells expand it
run crash srun -K -N3 -n3 -w 'node[1-3]' bash -c 'echo $$ >"$0/pid.$SLURMD_NODENAME"; exec "$0/gobw" "$@"' "$dir" fabric "${common[@]}" --quiet=false --round 0.6s --time 60s &
said crash 'round 1 of'
snapshots crash bash
kill -9 "$(cat "$dir/pid.node2")"
wait

# Without Slurm: a loop over hosts, and mpirun.
# shellcheck disable=SC2016 # the inner shell expands it
inside() { nsenter --net="/run/netns/$1" unshare --uts sh -c 'hostname $0; exec "$@"' "$@"; }
for i in 2 3 4; do inside node$i "$gobw" fabric --coordinator node1 -d roce0 --cpu none 2>"$dir/rank$i.err" & done
run loop inside node1 "$gobw" fabric --hosts 'node[1-4]' "${common[@]}" --round 0.2s --time 2s
wait
if command -v mpirun >/dev/null; then
	export -f inside
	export gobw
	# shellcheck disable=SC2016 # the ranks' shells expand it
	run mpirun mpirun --allow-run-as-root --oversubscribe -n 4 bash -c \
		'inside node$((OMPI_COMM_WORLD_RANK + 1)) "$gobw" fabric --coordinator node1 "$@"' rank "${common[@]}" --round 0.2s --time 3s
fi
