# Thin: each target sets up what is missing, then calls one command line.

.DEFAULT_GOAL := help
.PHONY: help variables setup doctor experiment prove-real reproduce plan optimize compare loss
.PHONY: collective compare-collectives compare-failures sync-sgd bench-resynthesis
.PHONY: bench-aggregator bench-collectives bench-identity
.PHONY: bench-scale fuzz kills compare-uftp test lint clean distclean fault-matrix verify
.PHONY: bench-fidelity
.NOTPARALLEL:

SYSTEM_PYTHON := /usr/bin/python3
SET_UP := $(SYSTEM_PYTHON) -m testbed.bootstrap

# Each variable that is set becomes the option of its name; the shell quotes the value.
export SCHEDULE CLOCK MEMORY MULTICAST AGGREGATION ROUNDS PAYLOAD SCALE SEED TOPOLOGY TREES RATES CONFIG
export RUN FORMAT BUDGET DATAGRAMS TIMES COLLECTIVE ALGORITHM MODEL CHUNKS ROOT RELEASE
# These by way of --set.
SETTINGS := WAYS COLLISION HASH MEMORY_MODEL DTYPE ORDERED ENGINE RESEND_MS REPAIR \
	COMPUTE_MS LOOP LOSS_PERCENT LOSS_BURST DUPLICATE_PERCENT REORDER_PERCENT LINK_JITTER_US \
	LIMITS REPLAN_MS
export $(SETTINGS)
# What every command has, then what some have.
COMMON_OPTIONS = \
	$${PAYLOAD:+--payload "$$PAYLOAD"} $${SCALE:+--scale "$$SCALE"} \
	$${TOPOLOGY:+--topology "$$TOPOLOGY"} $${CONFIG:+--config "$$CONFIG"}
RUN_OPTIONS = \
	$${SCHEDULE:+--schedule "$$SCHEDULE"} $${MEMORY:+--memory "$$MEMORY"} \
	$${MULTICAST:+--multicast "$$MULTICAST"} $${AGGREGATION:+--aggregation "$$AGGREGATION"}
PACKET_OPTIONS = $${ROUNDS:+--rounds "$$ROUNDS"} $${TREES:+--trees "$$TREES"} \
	$${RATES:+--rates "$$RATES"}
SEED_OPTION = $${SEED:+--seed "$$SEED"}
BUDGET_OPTION = $${BUDGET:+--budget "$$BUDGET"}
FORMAT_OPTION = $${FORMAT:+--format "$$FORMAT"}
FORCE_OPTION = $(if $(filter-out 0,$(FORCE)),--force)
QUICK_OPTION = $(if $(filter-out 0,$(QUICK)),--quick)

SETTING_OPTIONS = $(foreach name,$(SETTINGS),$${$(name):+--set "$(name)=$$$(name)"})

EXPERIMENT_OPTIONS = $(RUN_OPTIONS) $(PACKET_OPTIONS) $(COMMON_OPTIONS) $(SETTING_OPTIONS) \
	$${CLOCK:+--clock "$$CLOCK"} $(SEED_OPTION) $(FORCE_OPTION) \
	$${CHUNKS:+--chunks "$$CHUNKS"} $${MODEL:+--model "$$MODEL"} \
	$${RELEASE:+--release "$$RELEASE"}
VERIFY_OPTIONS = $${CLOCK:+--clock "$$CLOCK"} $${SCALE:+--scale "$$SCALE"} $(SEED_OPTION) \
	$${TOPOLOGY:+--topology "$$TOPOLOGY"} $${CONFIG:+--config "$$CONFIG"} \
	$${LIMITS:+--set "LIMITS=$$LIMITS"} $(FORMAT_OPTION)
PLAN_OPTIONS = $(RUN_OPTIONS) $(PACKET_OPTIONS) $(COMMON_OPTIONS) $(SETTING_OPTIONS) \
	$(FORMAT_OPTION)
OPTIMIZE_OPTIONS = $${MEMORY:+--memory "$$MEMORY"} $(COMMON_OPTIONS) $(SEED_OPTION) \
	$(BUDGET_OPTION) $(FORMAT_OPTION)
COMPARE_OPTIONS = $(PACKET_OPTIONS) $(COMMON_OPTIONS) $(SEED_OPTION) $(BUDGET_OPTION) \
	$(FORMAT_OPTION) $(FORCE_OPTION) $(QUICK_OPTION)
LOSS_OPTIONS = $${SCHEDULE:+--schedule "$$SCHEDULE"} $${MEMORY:+--memory "$$MEMORY"} \
	$(PACKET_OPTIONS) $(COMMON_OPTIONS) $(SETTING_OPTIONS) $(SEED_OPTION) $(FORMAT_OPTION) \
	$(FORCE_OPTION) $(QUICK_OPTION)
COMPARE_COLLECTIVES_OPTIONS = $(COMMON_OPTIONS) $(SEED_OPTION) $(FORMAT_OPTION) $(QUICK_OPTION) \
	$${CHUNKS:+--chunks "$$CHUNKS"}
COMPARE_FAILURES_OPTIONS = $${SCHEDULE:+--schedule "$$SCHEDULE"} $(COMPARE_COLLECTIVES_OPTIONS) \
	$(SETTING_OPTIONS)
SYNC_SGD_OPTIONS = $(COMPARE_COLLECTIVES_OPTIONS) $${COMPUTE_MS:+--set "COMPUTE_MS=$$COMPUTE_MS"}
COLLECTIVE_OPTIONS = \
	$${TOPOLOGY:+--topology "$$TOPOLOGY"} $${COLLECTIVE:+--collective "$$COLLECTIVE"} \
	$${ALGORITHM:+--algorithm "$$ALGORITHM"} $${PAYLOAD:+--payload "$$PAYLOAD"} \
	$${MODEL:+--model "$$MODEL"} $${CHUNKS:+--chunks "$$CHUNKS"} $${ROOT:+--root "$$ROOT"} \
	$${MULTICAST:+--multicast "$$MULTICAST"} $${AGGREGATION:+--aggregation "$$AGGREGATION"} \
	$(SEED_OPTION) $(BUDGET_OPTION) $(FORMAT_OPTION)

# Runs modules of this clone in its environment. What root wrote here under sudo is handed to
# the calling user afterwards, however the command ended.
define in_environment
@python="$$($(SET_UP) print-python)" || exit; \
trap '$(SET_UP) give-back' EXIT; trap 'exit 130' INT TERM; \
run() { "$$python" -m "$$@"; };
endef

define HELP
make setup        set up what is missing: packages, environment, kernel (all cached)
make doctor       say what this machine can do, and the command that mends each lack
make experiment   plan, run, analyse and plot one experiment; print its summary
make prove-real   run an experiment in real time, in the distribution's packaged User Mode Linux
make verify       measure every link and path of the network, and say whether to believe it
make reproduce    run a stored run again; compare trace, summary, tables, plots' data
make plan         print what the planner makes of an experiment, without running it
make optimize     search for the best schedule of a memory; print the Pareto front
make compare      plan and run schedules, ablations and memories; write one table and plots
make loss         run at several loss rates, with recovery and without; one table and a plot
make bench-aggregator  measure how many Gbit/s one core receives, adds and sends on
make bench-fidelity  measure links beside stock Mininet's, and links built wrong on purpose
make fuzz         feed damaged datagrams to the aggregator and the island; count every one
make kills        kill and interrupt runs at random moments; tell what is left behind
make compare-uftp measure uftp and our stream over the same lossy link
make fault-matrix run every kind of event with Triangles and All-to-All; check what comes of it
make collective   schedule an all-reduce, all-gather, … on any topology; print a table
make compare-collectives  run all-reduce by each algorithm, between hosts and by sums in the
                  network, and by Open MPI; one table and a plot
make sync-sgd     compute and synchronise in turns, by each way to do it; one table and a plot
make compare-failures  run an all-reduce once for each link, which fails at half the time
make bench-resynthesis  plan the same without packets: times, and what planning anew takes
make bench-collectives  measure the synthesiser against published figures
make bench-identity  run two experiments again and again, idle and under load; compare traces
make bench-scale  measure how a run grows with cities and with the emulated rate
make variables    list every config key with its values and default
make test         run all tests
make lint         check format, style and types
make clean        remove caches of this clone and what interrupted runs left; keep results/
make distclean    clean, and remove the cached environment and kernel

Packages and the real clock need root: `sudo make setup`, `sudo make experiment`.

Variables, e.g. `make experiment SCHEDULE=pairs MEMORY=32GB`:
  SCHEDULE     triangles, pairs, all-to-all, regional; or a YAML file
               experiment: also an all-reduce between hosts: ring, tacos, halving-doubling,
               hierarchical, parameter-server, double-binary-tree, direct; or by sums in the
               network: in-network
  CLOCK        virtual, real, auto: real if this machine can; `make doctor` tells
  MEMORY       memory of each edge device: 0, 200MB, 32GB, ...
  MULTICAST    on, off: trees in the network, or one copy per receiver
  AGGREGATION  on, off: sums at the edge device, or at the island
  ROUNDS       how many rounds
  PAYLOAD      bytes of one weight stream: 1.79GB, ...
  SCALE        divides rate, payload and memory alike
  SEED         seeds all randomness
  TOPOLOGY     name, or a YAML file; collective: also .graphml, .csv, mesh:8x8, switch:8, ...
  TREES        how multicast trees are laid
  RATES        how senders pace: common, per-stream, unpaced; time-varying is planned only
  CONFIG       a published experiment, or a YAML file; the variables above override it
  RUN          of reproduce: a run id, a run folder; the latest unless told
  FORCE        1 runs what the planner refuses
  COLLECTIVE   all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all
  ALGORITHM    auto: the fastest; synthesised, ring, halving-doubling, hierarchical, ...
  MODEL        of links: pipelined, or occupancy as in the published synthesiser
  CHUNKS       pieces of the payload; 0 chooses
  RELEASE      planned, data: hosts send at the schedule's times, or as soon as they can
  REPLAN_MS    when links fail: time that planning anew is given, in ms
  ROOT         of broadcast and reduce: name of a worker
  FORMAT       of doctor, plan, optimize, compare, collective: table, or json: one object on the last line
  FORMAT       of verify, plan, optimize, compare, collective: table, or json: one object on
               the last line
  BUDGET       seconds for one search: of optimize, and of compare for each memory
  DATAGRAMS    how many `make fuzz` feeds: 10000000 unless told
  TIMES        of kills and bench-identity: how often; 20 unless told
  QUICK        1 compares with a tenth of the payload and coarser sweeps
The aggregator's table, and its recovery from loss:
  WAYS         1, 2, 4: places that a block may take in the table
  COLLISION    evict-old, forward-new, priority: what leaves where none of them is free
  HASH         mod, mix: how a block finds its place
  MEMORY_MODEL accumulate, hold: one sum for each block, or every stream by itself
  DTYPE        i32, i32-exponent, f32: elements of a stream
  ORDERED      on adds in the order of the senders, so that float sums are bit-reproducible
  ENGINE       native, reference: the aggregator's inner loop
  RESEND_MS    how much output is kept to be sent again, in ms, out of MEMORY; 0: none
  REPAIR       on: islands ask the sender for what no edge device can give any more
Training:
  COMPUTE_MS   time to compute a step before each synchronisation; ROUNDS says how many of them
  LOOP         synchronous, delayed, local: a step waits for the last sum, for the one before
               it, for none
The last hop, from each switch to its island (other links: `impairments` of a CONFIG file):
  LOSS_PERCENT LOSS_BURST            packets lost; mean length of a run of lost ones
  DUPLICATE_PERCENT REORDER_PERCENT  packets that come twice; that overtake the others
  LINK_JITTER_US                     the most that a packet is late
What the network may differ by from what is asked of it, before a run is not believed:
  LIMITS       some of them, such as '{delay_us: 5, rate_percent: 1}'; others as by default
Where they mean nothing they are not used: `make optimize` finds SCHEDULE and TREES itself, and
`make compare` goes through MEMORY, MULTICAST and AGGREGATION. Plans are written to
results/plans, verifications to results/verify, searches to results/optimize, comparisons to
results/compare, loss rates to results/loss, schedules of collectives to results/collectives.
Defaults, and the keys that only a CONFIG file takes: `make variables`.
endef

help:
	$(info $(HELP))
	@:

setup: $(SYSTEM_PYTHON)
	@trap '$(SET_UP) give-back' EXIT; $(SET_UP)

# Nothing is set up, nothing is written.
doctor:
	@[ -x $(SYSTEM_PYTHON) ] || { echo "error: $(SYSTEM_PYTHON) is missing: run \`sudo make setup\`" >&2; exit 5; }
	@PYTHONDONTWRITEBYTECODE=1 $(SYSTEM_PYTHON) -m testbed.doctor $(FORMAT_OPTION)

experiment: setup
	$(in_environment) run experiments.cli experiment $(EXPERIMENT_OPTIONS)

prove-real: setup
	$(in_environment) run experiments.provereal $(EXPERIMENT_OPTIONS)
verify: setup
	$(in_environment) run experiments.cli verify $(VERIFY_OPTIONS)

reproduce: setup
	$(in_environment) run experiments.cli reproduce $${RUN:+"$$RUN"}

plan: setup
	$(in_environment) run experiments.cli plan $(PLAN_OPTIONS)

optimize: setup
	$(in_environment) run experiments.cli optimize $(OPTIMIZE_OPTIONS)

compare: setup
	$(in_environment) run experiments.cli compare $(COMPARE_OPTIONS)

loss: setup
	$(in_environment) run experiments.cli loss $(LOSS_OPTIONS)

bench-aggregator: setup
	$(in_environment) run benchmarks.aggregator

bench-fidelity: setup
	$(in_environment) run benchmarks.fidelity

fuzz: setup
	$(in_environment) run benchmarks.fuzz $${DATAGRAMS:+--datagrams "$$DATAGRAMS"} $(SEED_OPTION)

kills: setup
	$(in_environment) run benchmarks.kills $${TIMES:+--times "$$TIMES"} $(SEED_OPTION)

compare-uftp: setup
	$(in_environment) run benchmarks.uftp

fault-matrix: setup
	$(in_environment) run benchmarks.faultmatrix

collective: setup
	$(in_environment) run experiments.cli collective $(COLLECTIVE_OPTIONS)

compare-collectives: setup
	$(in_environment) run experiments.cli compare-collectives $(COMPARE_COLLECTIVES_OPTIONS)

compare-failures: setup
	$(in_environment) run experiments.cli compare-failures $(COMPARE_FAILURES_OPTIONS)

bench-resynthesis: setup
	$(in_environment) run benchmarks.resynthesis

sync-sgd: setup
	$(in_environment) run experiments.cli sync-sgd $(SYNC_SGD_OPTIONS)

bench-collectives: setup
	$(in_environment) run benchmarks.collectives

bench-identity: setup
	$(in_environment) run benchmarks.identity $${TIMES:+--times "$$TIMES"}

bench-scale: setup
	$(in_environment) run benchmarks.scale

variables: setup
	$(in_environment) run experiments.cli variables

test: setup
	$(in_environment) run pytest

lint: setup
	$(in_environment) run ruff format --check && run ruff check && run mypy

clean:
	@if python="$$($(SET_UP) print-python 2>/dev/null)"; then "$$python" -m experiments.cli clean; fi
	@find . -path ./.git -prune -o -type d -name __pycache__ -exec rm -rf {} +
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis

distclean: clean
	@PYTHONDONTWRITEBYTECODE=1 $(SET_UP) clear-cache

$(SYSTEM_PYTHON):
	@[ "$$(id -u)" = 0 ] || { echo "error: $@ is missing: run \`sudo make setup\`" >&2; exit 5; }
	apt-get update -q && apt-get install -y -q --no-install-recommends python3
