#!/bin/bash
# Runs on the login host of scripts/slurm-lab: cluster.sh DIR, in which gobw and golat are. Leaves NAME.json, NAME.status and NAME.err in DIR.
gobw=$1/gobw dir=$1
n=$HOSTS
export GOBW_FABRIC_SECRET=known-to-the-job
common=(-d roce0 --cpu none -s 4K -t 16 --slow 30% --quiet)

# Every link is as slow as another, or the two cores that all hosts share would decide who is slow.
shape() { nsenter --net="/run/netns/node$1" tc qdisc replace dev eth0 root tbf rate "$2" burst 8k latency 800ms; }
run() { # NAME COMMAND...
	local name=$1
	shift
	"$@" --json "$dir/$name.json" >"$dir/$name.out" 2>"$dir/$name.err"
	echo $? >"$dir/$name.status"
}
for i in $(seq "$n"); do shape "$i" 8mbit; done
shape 3 4mbit

if [ "$n" -gt 4 ]; then
	run matchings srun -K -N"$n" -n"$n" "$gobw" fabric "${common[@]}" --round 0.5s --time 45s --pattern random --html "$dir/matchings.html" --junit "$dir/matchings.xml"
	for pattern in shift quick incast alltoall ring bisection leaves; do
		run "$pattern" srun -K -N"$n" -n"$n" "$gobw" fabric "${common[@]}" -t 4 --pattern $pattern --round 0.1s --time 1s --slow 60%
	done
	echo '0,1;2,3;4,5;6,7;8,9;10,11;12,13;14,15' >"$dir/rows" # as SuperBench's
	run custom srun -K -N"$n" -n"$n" "$gobw" fabric "${common[@]}" --pattern custom --custom "$dir/rows" --round 0.1s --time 1s --slow 60%
	exit 0
fi

run slow-host srun -K -N4 -n4 "$gobw" fabric "${common[@]}" --round 0.4s --time 40s
shape 3 8mbit

# The link from node1 to node2 is slow, and so is the way back, whose acknowledgements take it.
node1() { nsenter --net=/run/netns/node1 tc "$@"; }
node1 qdisc replace dev eth0 root handle 1: htb default 1
node1 class add dev eth0 parent 1: classid 1:1 htb rate 8mbit burst 8k
node1 class add dev eth0 parent 1: classid 1:2 htb rate 3mbit burst 8k
node1 filter add dev eth0 parent 1: protocol ip u32 match ip dst 10.77.0.3/32 flowid 1:2
run slow-link srun -K -N4 -n4 "$gobw" fabric "${common[@]}" --round 0.4s --time 45s
shape 1 8mbit

# Two rails, each a network of its own; the second one of node3 is slow.
for i in $(seq 4); do nsenter --net="/run/netns/node$i" tc qdisc replace dev eth1 root tbf rate 8mbit burst 8k latency 800ms; done
nsenter --net=/run/netns/node3 tc qdisc replace dev eth1 root tbf rate 4mbit burst 8k latency 800ms
run rails srun -K -N4 -n4 "$gobw" fabric "${common[@]}" -d roce0,roce0@eth1 --round 0.4s --time 30s

# A program that is started without srun is told so.
SLURM_JOB_ID=7 SLURM_PROCID=0 SLURM_NTASKS=4 run batch "$gobw" fabric -d roce0

# Two jobs at once, on hosts of their own.
run left srun -K -N2 -n2 -w 'node[1-2]' "$gobw" fabric "${common[@]}" --round 0.2s --time 4s &
run right srun -K -N2 -n2 -w 'node[3-4]' "$gobw" fabric "${common[@]}" --round 0.2s --time 4s
wait

# A link is cut in mid-run, and mended when the run is over, so that Slurm can end the job.
run cut srun -K -N4 -n4 "$gobw" fabric "${common[@]}" --pattern random --round 0.5s --time 16s --jsonl "$dir/cut.jsonl" &
for _ in $(seq 200); do [ "$(wc -l <"$dir/cut.jsonl" 2>/dev/null || echo 0)" -lt 8 ] || break; sleep 0.05; done
ip link set v4 down
for _ in $(seq 600); do [ ! -s "$dir/cut.json" ] || break; sleep 0.05; done
ip link set v4 up
ip route replace 10.77.0.5 dev v4
wait

# A job that is cancelled saves what it has and leaves nothing behind.
run cancelled srun -K -N4 -n4 "$gobw" fabric "${common[@]}" --pattern random --round 0.3s --time 60s --jsonl "$dir/cancelled.jsonl" &
for _ in $(seq 400); do [ "$(wc -l <"$dir/cancelled.jsonl" 2>/dev/null || echo 0)" -lt 8 ] || break; sleep 0.05; done
scancel -s USR1 -n gobw # a snapshot
for _ in $(seq 100); do ! grep -q 'a snapshot' "$dir/cancelled.err" || break; sleep 0.05; done
scancel -n gobw
wait
left() { # processes, RoCE's sockets, shared memory
	pgrep -x gobw
	for i in $(seq 4); do nsenter --net="/run/netns/node$i" grep -hi ':12B7 ' /proc/net/udp /proc/net/udp6; done
	grep -v key /proc/sysvipc/shm
}
for _ in $(seq 100); do
	left >"$dir/left-behind"
	[ -s "$dir/left-behind" ] || break
	sleep 0.05
done

# Without Slurm: a loop of agents, and mpirun.
# shellcheck disable=SC2016 # the inner shell expands it
inside() { nsenter --net="/run/netns/$1" unshare --uts sh -c 'hostname $0; exec "$@"' "$@"; }
seq -f node%g 4 >"$dir/hosts"
for i in 2 3 4; do inside node$i "$gobw" agent node1 -d roce0 --cpu none 2>"$dir/agent$i.err" & done
run loop inside node1 "$gobw" fabric --hosts "$dir/hosts" "${common[@]}" --round 0.3s --time 15s
wait

# Latencies: what node3 receives is late. Delays are so long that the processors, which all hosts share, matter little.
for i in 2 3 4; do
	late=30ms
	[ $i != 3 ] || late=120ms
	inside node$i "$gobw" agent node1 -d roce0 --cpu none --emulate delay=$late 2>"$dir/late$i.err" &
done
run latency inside node1 "$dir/golat" fabric --hosts "$dir/hosts" -d roce0 --cpu none --emulate delay=30ms --op send --slow 30% --quiet --round 0.6s --time 30s
wait
if command -v mpirun >/dev/null; then
	export -f inside
	export gobw
	# shellcheck disable=SC2016 # the ranks' shells expand it
	run mpirun mpirun --allow-run-as-root --oversubscribe -n 4 bash -c \
		'inside node$((OMPI_COMM_WORLD_RANK + 1)) "$gobw" fabric --coordinator node1 "$@"' rank "${common[@]}" --round 0.3s --time 15s
fi
