# kvroute - read from top to bottom.
#
#   make            kvroute and kvroutectl at the top of the tree
#   make demo       a real HAProxy, the agent and four stub engines; prints one table. LOAD=agents:
#                   of sessions of coding agents
#   make check      a developer's loop: unit tests, configuration, manual, .vtc files
#   make test       all tests; the last line is "N passed, N failed"
#   make bench      the figures of each module
#   make deps       installs missing Debian packages (demo and test call it)

ifeq ($(origin CC),default)
CC      := gcc
endif
B       ?= build/release
SAN     ?=
WERROR  ?=
OPT     ?= -O2
# the only place of the version; debian/changelog and kubernetes/ are checked against it
VERSION := 1.0.0

# V=1 prints every command; otherwise one line each. QUIET=1 prints only warnings and errors.
say = $(if $(V),,@$(if $(QUIET),,echo "  $(1)";))

# Without LTO: of bench_agent's least times it saved 0.2 of 5.7 us for 16 KB and 0.3 of 19.3 us for
# 128 KB (gcc 12, a busy machine).
CFLAGS  ?= $(OPT) -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wwrite-strings -Wvla -Wformat=2 -Wno-unused-parameter -Wno-missing-field-initializers \
           $(if $(findstring clang,$(CC)),,-Wno-format-truncation)
# optional: without it, or with HAVE_ZMQ=, no events of engines are read
ifndef HAVE_ZMQ
HAVE_ZMQ := $(shell printf '\043include <zmq.h>' | $(CC) -E - > /dev/null 2>&1 && echo yes)
endif
# optional, the same way: without it agents share nothing. Version 1 brings TLS.
ifndef HAVE_HIREDIS
HAVE_HIREDIS := $(shell printf '\043include <hiredis/hiredis.h>' | $(CC) -E - > /dev/null 2>&1 && \
	echo yes)
endif
ifndef HAVE_HIREDIS_SSL
HAVE_HIREDIS_SSL := $(if $(HAVE_HIREDIS),$(shell printf \
	'\043include <hiredis/hiredis_ssl.h>\n\043include <openssl/err.h>' | \
	$(CC) -E - > /dev/null 2>&1 && echo yes))
endif
# tests/it/install.sh checks each of these in the built programs. Sanitizers have their own checks.
machine := $(shell $(CC) -dumpmachine)
HARDEN  := -fPIE -fstack-protector-strong -fstack-clash-protection \
           $(if $(filter x86_64-%,$(machine)),-fcf-protection=full) \
           $(if $(filter aarch64-%,$(machine)),-mbranch-protection=standard) \
           $(if $(SAN),,$(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE \
           -D_FORTIFY_SOURCE=3))
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -I. -DKVROUTE_VERSION='"$(VERSION)"' -pthread \
           -fno-strict-aliasing $(CPPFLAGS) $(HARDEN) $(WARN) $(WERROR) $(SAN) $(CFLAGS) \
           $(if $(HAVE_ZMQ),-DHAVE_ZMQ) $(if $(HAVE_HIREDIS),-DHAVE_HIREDIS) \
           $(if $(HAVE_HIREDIS_SSL),-DHAVE_HIREDIS_SSL)
ALL_LDFLAGS := -pthread -pie -Wl,-z,relro,-z,now,-z,noexecstack $(SAN) $(LDFLAGS)
LIBS    := -lev -lyaml -lseccomp -lpcre2-8 -lm $(if $(HAVE_ZMQ),-lzmq) \
           $(if $(HAVE_HIREDIS_SSL),-lhiredis_ssl -lssl -lcrypto) $(if $(HAVE_HIREDIS),-lhiredis)

# ---- modules: "uses_X" names the libraries that X may use; its unit tests link no others ----

MODULES := spoe base spop-check tok jinja chat prompt index events policy feed share fleet \
           request route doctor sim serve os loop conf ctl

dir_spoe   := spoe
dir_base   := agent/base
dir_spop-check := spop-check
dir_tok    := agent/tok $(addprefix agent/tok/,file bpe lexicon split unicode)
dir_jinja  := agent/jinja
dir_chat   := agent/chat
dir_prompt := agent/prompt
dir_index  := agent/index
dir_events := agent/events
dir_policy := agent/policy
dir_feed   := agent/feed
dir_share  := agent/share
dir_fleet  := agent/fleet
dir_request := agent/request
dir_route  := agent/route
dir_doctor := agent/doctor
dir_sim    := agent/sim
dir_serve  := agent/serve
dir_conf   := agent/conf
dir_os     := agent/os
dir_loop   := agent/loop
dir_ctl    := agent/ctl

uses_spoe   := spoe
uses_base   := base
uses_spop-check := spop-check spoe base
uses_tok    := tok base
uses_jinja  := jinja base
uses_chat   := chat jinja base
uses_prompt := prompt base
uses_index  := index base
uses_events := events base
uses_policy := policy base
uses_feed   := feed base
uses_share  := share feed base
uses_fleet  := fleet policy feed base
uses_request := request prompt chat tok jinja base
uses_route  := route fleet request prompt chat tok jinja index events policy feed base
uses_doctor := doctor $(uses_route)
uses_sim    := sim share $(uses_route)
uses_serve  := serve spoe $(uses_route)
uses_os     := os base
uses_loop   := loop os share $(uses_serve)
uses_conf   := conf $(uses_loop)
# its tests need no more; the rest of what it calls is linked by kvroutectl only
uses_ctl    := ctl feed base

all: kvroute kvroutectl
.PHONY: all
.SECONDARY:

define module
lib_$(1) := $$(B)/lib$(1).a
obj_$(1) := $$(patsubst %.c,$$(B)/%.o,$$(sort $$(foreach d,$$(dir_$(1)),$$(wildcard $$(d)/*.c))))
$$(lib_$(1)): $$(obj_$(1))
	@rm -f $$@; mkdir -p $$(@D)
	$$(call say,AR   $$@)ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module,$(m))))

libs = $(foreach m,$(1),$(B)/lib$(m).a)
link = $(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) \
	-Wl,--start-group $(filter %.a,$^) -Wl,--end-group

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC   $@)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/agent/loop/page_html.o: agent/loop/page.html
# it is written in assembly, which LTO drops
$(B)/agent/loop/page_html.o: ALL_CFLAGS += -fno-lto

# The SPOP library may be linked into a shared object of its users.
$(obj_spoe): ALL_CFLAGS += -fPIC $(if $(findstring clang,$(CC)),,-fno-semantic-interposition)

# Hash and pad of segments and ends of pieces, once more with AVX2; their callers ask the CPU for
# each of these sets.
ifneq ($(filter x86_64-%,$(machine)),)
$(B)/agent/base/hash_avx2.o $(B)/agent/tok/segcache_avx2.o: ALL_CFLAGS += -mavx2 -mbmi2
$(B)/agent/tok/split/split_block_avx2.o: ALL_CFLAGS += -mavx2 -mbmi -mpopcnt
endif

# The commit is compiled into one object, which is made again when it changes.
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2> /dev/null)
$(B)/agent/version.o: ALL_CFLAGS += -DKVROUTE_COMMIT='"$(COMMIT)"'
$(B)/agent/version.o: $(B)/commit
$(B)/commit: FORCE
	@mkdir -p $(@D); echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
.PHONY: FORCE
# these are compiled with the version
$(addprefix $(B)/agent/,ctl/main.o $(addprefix loop/,loop.o metrics.o poll_engine.o status_page.o \
	tokfile.o)): Makefile

$(B)/kvroute: $(B)/agent/main.o $(B)/agent/version.o $(call libs,$(uses_conf))
	$(link) $(LIBS)
$(B)/kvroutectl: $(patsubst %.c,$(B)/%.o,$(wildcard agent/ctl/*.c)) \
		$(call libs,spop-check doctor $(uses_sim) $(uses_conf))
	$(link) $(LIBS)

kvroute kvroutectl: %: $(B)/%
	cp -f $< $@

# ---- unit tests: tests/unit/<module>/test_*.c links its module and the modules it may use ----

UNIT := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/unit/*/test_*.c)))

# test_*_fault.c makes allocations fail: tests/unit/fault.h
FAULT := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=arena_alloc

# tests/lib/index checks and prints an index; for tests, benches and fuzzing
lib_index_test := $(B)/libindex_test.a
$(lib_index_test): $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/lib/index/*.c)))
	@rm -f $@; mkdir -p $(@D)
	$(call say,AR   $@)ar rcs $@ $^

define unit_module
$$(B)/tests/unit/$(1)/test_%: $$(B)/tests/unit/$(1)/test_%.o $$(call libs,$$(uses_$(1))) \
		$$(if $$(filter index,$$(uses_$(1))),$$(lib_index_test))
	$$(link) $$(if $$(filter %_fault,$$@),$$(FAULT)) -lcmocka \
		$$(if $$(filter os loop conf,$(1)),$$(LIBS),-lpcre2-8 -lm)
endef
$(foreach m,$(MODULES),$(eval $(call unit_module,$(m))))

unit-programs: $(UNIT)
unit: unit-programs
	tests/unit/run.sh $(UNIT)
# the programs with threads, for ThreadSanitizer
unit-threads: $(filter %_threads,$(UNIT))
	tests/unit/run.sh $^
.PHONY: unit-programs unit unit-threads

# ---- test tools and benches: one .c each ----

SHIMS := $(patsubst %.c,$(B)/%.so,$(wildcard tests/tools/*_shim.c))
TOOLS := $(patsubst %.c,$(B)/%,$(filter-out %_shim.c,$(sort $(wildcard tests/tools/*.c)))) $(SHIMS)
TOOL_LIB := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/tools/lib/*.c))) $(B)/agent/base/err.o
BENCH := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/bench/bench_*.c)))

$(B)/tests/tools/%: $(B)/tests/tools/%.o $(call libs,$(uses_serve))
	$(link) $(LIBS)

# For LD_PRELOAD with any program, so built without a sanitizer.
$(B)/%_shim.so: %_shim.c tests/tools/shim.h
	@mkdir -p $(@D)
	$(call say,CC   $@)$(CC) -std=gnu11 -D_GNU_SOURCE -I. $(WARN) $(WERROR) -O1 -g -fPIC -shared \
		-o $@ $< -ldl

# Engine and load generators link no library of the agent, so that its bugs cannot hide in both.
HTTP_TOOLS := $(addprefix $(B)/tests/tools/,stub_engine chat_load http_pace http_flood fast_engine)
$(HTTP_TOOLS): $(B)/%: $(B)/%.o $(TOOL_LIB)
	$(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lev -lm

# It writes what the simulator generates, for chat_load to replay.
$(B)/tests/tools/agents_plan: $(B)/tests/tools/agents_plan.o $(B)/agent/sim/agentic.o
	$(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lm

# SPOP agents and clients link the SPOP library, and nothing of the agent.
SPOP_TOOLS := $(addprefix $(B)/tests/tools/,noop_spoa spop_load)
$(SPOP_TOOLS): $(B)/%: $(B)/%.o $(TOOL_LIB) $(B)/libspoe.a
	$(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lev -lm

$(B)/tests/bench/%: $(B)/tests/bench/%.o $(call libs,$(uses_conf))
	$(link) $(LIBS)

BENCH_INDEX := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/bench/index/*.c)))
$(B)/tests/bench/bench_index: $(BENCH_INDEX)
$(B)/tests/bench/bench_events: $(lib_events) $(B)/tests/bench/events/fleet.o
$(B)/tests/bench/gen_index: $(B)/tests/bench/index/pbw1.o
b := $(B)/tests/bench
$(b)/bench_index.o $(b)/bench_index.ok: ALL_CFLAGS += -DBENCH_FLAGS='"$(CFLAGS) $(SAN)"'
$(B)/tests/tools/share_batch: $(lib_share)
tools: $(TOOLS)
.PHONY: tools

# Compile all of tests/ for warnings only, without code.
$(B)/%.ok: %.c
	@mkdir -p $(@D)
	$(call say,CHECK $@)$(CC) $(ALL_CFLAGS) -fsyntax-only $< && touch $@
compiles: $(patsubst %.c,$(B)/%.ok,$(sort $(shell find tests -name '*.c')))
.PHONY: compiles

# ---- fuzzing: one .c per target, linked with libFuzzer, or (FUZZER=) with a main() that replays
# files: tests/fuzz/README.md ----

FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/*.c)))
FUZZER ?=

fuzz_main := $(if $(FUZZER),,$(B)/tests/fuzz/lib/replay.o)
$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(fuzz_main) $(call libs,sim doctor $(uses_conf)) \
		$(lib_index_test)
	$(link) $(FUZZER) $(LIBS)
fuzz-programs: $(FUZZ_TARGETS:%=$(B)/tests/fuzz/%)
fuzz fuzz-replay fuzz-merge fuzz-coverage fuzz-ledger:
	@tests/fuzz/run.sh $(@:fuzz-%=%)
.PHONY: fuzz-programs fuzz fuzz-replay fuzz-merge fuzz-coverage fuzz-ledger

# ---- installation: make install DESTDIR=... PREFIX=/usr; make uninstall with the same ----

PREFIX     ?= /usr/local
SBINDIR    ?= $(PREFIX)/sbin
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
MANDIR     ?= $(PREFIX)/share/man
DOCDIR     ?= $(PREFIX)/share/doc
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
# systemd reads units and their companions of the system below /usr/lib, or /usr/local/lib
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSTEMDDIR ?= $(PREFIX)/lib
BASHDIR    ?= $(PREFIX)/share/bash-completion/completions
ZSHDIR     ?= $(PREFIX)/share/zsh/site-functions

install: $(B)/kvroute $(B)/kvroutectl $(B)/libspoe.a
install uninstall:
	@B='$(B)' VERSION='$(VERSION)' DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SBINDIR='$(SBINDIR)' \
	 BINDIR='$(BINDIR)' LIBDIR='$(LIBDIR)' MANDIR='$(MANDIR)' DOCDIR='$(DOCDIR)' \
	 SYSCONFDIR='$(SYSCONFDIR)' UNITDIR='$(UNITDIR)' SYSTEMDDIR='$(SYSTEMDDIR)' \
	 BASHDIR='$(BASHDIR)' ZSHDIR='$(ZSHDIR)' packaging/install.sh \
	 $(if $(filter uninstall,$@),remove)
# the versions that the programs are linked with, as SPDX 2.3: build/kvroute.spdx.json
sbom: $(B)/kvroute $(B)/kvroutectl
	@python3 packaging/sbom.py $^ > build/kvroute.spdx.json && echo build/kvroute.spdx.json
# packages for this Debian, built twice and compared byte for byte: build/deb/
deb-deps:
	@tests/tools/deps.sh deb
deb:
	@packaging/deb.sh
# beside these, what only make test-long needs: mmdebstrap, a compiler for arm64, qemu
long-deps:
	@tests/tools/deps.sh long
# the schemas of Kubernetes for suite kubernetes (22 MB from PyPI)
kubernetes-deps:
	@python3 -m pip install -q --target build/python kubernetes-validate
.PHONY: install uninstall sbom deb-deps deb long-deps kubernetes-deps

# ---- commands ----

# "make -jN test" builds with N jobs, "make test" with one per processor
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))

deps:
	@tests/tools/deps.sh
demo:
	@tests/tools/deps.sh build demo
	@$(MAKE) $(jobs) --no-print-directory -s all tools
	@python3 tests/it/demo.py
demo-stop:
	@python3 tests/it/demo.py stop
# files that are made of agent/loop/metric_list.h; suite monitoring tells if they are stale
docs:
	@python3 doc/metrics.py
	@python3 doc/monitoring.py
.PHONY: docs
test:
	@tests/tools/deps.sh
	@echo "building (V=1 shows how)"
	@$(MAKE) $(jobs) --no-print-directory $(if $(V),,QUIET=1 -s) all tools unit-programs
	@tests/run.sh
# unit tests with ASan, UBSan and TSan, stories with ASan, clang, and a build without libzmq and
# hiredis; SANITIZED=1 runs them within make test
test-sanitized:
	@tests/tools/deps.sh
	@$(MAKE) $(jobs) --no-print-directory $(if $(V),,QUIET=1 -s) all tools
	@tests/run.sh sanitized
check: all tools unit-programs
	@tests/run.sh check
it: all tools
	tests/run.sh conf recipes vtc stories
# the images of docker/docker-compose.yml; without a registry of Debian's packages
images:
	@docker/images.sh
compose-test: all tools
	docker/compose-test.sh
bench: $(BENCH)
	@for b in $^; do $$b || exit 1; done
# whole workloads, as files in build/bench/ that other programs can read; bench-index-peers: beside
# the indexes of SMG, which cargo builds: tests/bench/index.sh
bench-index bench-index-instructions bench-index-peers: \
		$(B)/tests/bench/bench_index $(B)/tests/bench/gen_index
	@B=$(B) tests/bench/index.sh $(@:bench-index-%=%)
# the index of events under churn, with 1000 servers too; takes some minutes
bench-events: $(B)/tests/bench/bench_events
	@$< large
# entries for other agents: bytes, and time to write and to read
bench-share: $(B)/tests/bench/bench_share
	@$<
# what one store carries: AGENTS, RATE, PAGES, SECONDS: tests/bench/share_store.py
bench-share-store: $(B)/tests/bench/store_load
	@python3 tests/bench/share_store.py
# frame to ACK of a warm turn over a real connection, text and token mode, beside transport alone
# and the same in memory
bench-turns: all tools $(B)/tests/bench/bench_turn
	@python3 tests/bench/turn_socket.py
# the rules against simulated engines in memory
bench-sim: all
	@python3 tests/bench/sim.py
# text to token ids: make bench-prompt TOK=tokenizer.json TEXTS="english=FILE chinese=FILE"
bench-prompt: $(B)/tests/bench/bench_bpe
	@$< $(TOK) $(TEXTS)
# beside other tokenizers: TOKENIZER=tokenizer.json, TEXTS, ROUNDS, PYTHON=V/bin/python of a
# venv that has them: tests/bench/tokenizer_peers.py
bench-tokenizers: $(B)/tests/bench/bench_bpe
	@B=$(B) python3 tests/bench/tokenizer_peers.py
# the cost of hostile bodies for each family of tokenizers
HOSTILE_DATA ?= ../shared/data/tokenizers
bench-hostile: $(B)/tests/bench/bench_hostile
	@tests/bench/hostile.sh $< $(HOSTILE_DATA)
# instructions for a request with and without the message "model"
bench-model: $(B)/tests/bench/bench_model
	@B=$(B) tests/bench/model.sh
# well-behaved clients next to hostile ones, with a real HAProxy
bench-attack: all tools
	@python3 tests/bench/attack.py
# a prefix that many requests share
bench-crowd: all
	@python3 tests/bench/crowd.py
# the sweeps of doc/tuning.md; with --write into it: tests/bench/tuning.py
bench-tuning: all
	@python3 tests/bench/tuning.py
.PHONY: bench-tuning
# sessions of coding agents: all rules, and bodies cut to HAProxy's buffers; RULES, CELLS, SEED,
# SEEDS, ENGINES: tests/bench/agentic.py
bench-agentic: all
	@python3 tests/bench/agentic.py
# engines that compute prompts for others; WORKLOADS, LOADS, PREFILLS, ...: tests/bench/prefill.py
bench-prefill: all
	@python3 tests/bench/prefill.py
# several agents for one fleet; AGENTS, DELAYS, LOSSES, LIMIT: tests/bench/share_sim.py
bench-share-sim: all
	@python3 tests/bench/share_sim.py
# the cells (engines, load) of public traces in which a published rule beats cost
bench-cells: all
	@python3 tests/bench/cells.py
# cost with and without KV cache events, against oracles and published rules; TRACES, CELLS, SEEDS:
# tests/bench/cells_events.py
bench-cells-events: all
	@python3 tests/bench/cells_events.py
# kvroute and the installed routers under a live load; SMG=path, SGLANG=path, PEERS, SEEDS:
# tests/bench/peers.py
bench-peers: all tools
	@python3 tests/bench/peers.py
# CPU time of HAProxy and agent for each line of the recipe, and added latency; VERSIONS, SIZES,
# ROUNDS, ...: tests/bench/path.py
bench-path: all tools
	@python3 tests/bench/path.py
# instructions and system calls of the agent for a request: tests/bench/path_agent.py
bench-path-agent: all tools
	@python3 tests/bench/path_agent.py
# requests for each second of CPU time with one and two threads, and locks that wait
bench-path-threads: all tools
	@python3 tests/bench/path_threads.py -f
# what HAProxy's buffers cost; SIZES, BODIES, OPEN, HOW, HAPROXYS: tests/bench/buffers.py
bench-buffers: all tools
	@python3 tests/bench/buffers.py
# and what small ones cost in 19 cells; BUFFERS, SOURCES, SEEDS: tests/bench/buffer_cells.py
bench-buffer-cells: all
	@python3 tests/bench/buffer_cells.py
bench-socket: all tools
	@python3 tests/bench/notifies.py
bench-overload: all tools
	@python3 tests/bench/overload.py
# token ids and speed compared with tokenizers and tiktoken of PyPI, on ROUNDS generated texts for
# each vocabulary; chat templates compared with Debian's python3-jinja2; and, with a vLLM (make
# engine, or VLLM=path), responses for gpt-oss
CHAT_DATA ?= ../shared/data/tokenizers/chat/templates
TEMPLATES ?= $(wildcard $(CHAT_DATA)/*.jinja) tests/data/tok/llama.chat_template.jinja
oracle: all
	@if python3 -c 'import jinja2' 2> /dev/null; then \
		nice python3 tests/tools/oracle_jinja.py -n $${CONVERSATIONS:-4} $(TEMPLATES); \
	 else echo "skipped: chat templates: python3-jinja2 is not installed"; fi
	@python3 tests/tools/oracle_engine.py
	@python3 tests/tools/oracle_responses.py
	@python3 tests/tools/oracle.py
# tokenizers in the data of other PyPI packages (about 90 MB), each compared with its own library;
# FILES="tokenizer.json ...": only these
.PHONY: oracle-wild
oracle-wild: all
	@python3 tests/tools/oracle_wild.py
# two real vLLM behind HAProxy and the agent; skipped without one (make engine, or VLLM=path). With
# ENGINES="127.0.0.1:8001 ..." TOKENIZER=tokenizer.json: "hit" and the cache of running engines
.PHONY: engine engine-test
engine-test: all
	@python3 tests/it/engine$(if $(ENGINES),,_vllm).py
# 6.2 GB from PyPI
engine:
	@tests/tools/install_vllm.sh build/engine
# the agent over SPOP with simulated engines; CELLS, LIMIT, PEERS: tests/sim/sim.py
sim: all
	@python3 tests/sim/sim.py
# tests that take too long for make test; make long-deps first
test-long: all tools
	@tests/run.sh notifies-10m model-long model-asan failures-long scarce-long slack-long older \
		asan-long socket-asan package debian13 readme arm64 \
		$(foreach v,3.0 3.2,promise-1-$(v) reload-$(v) feed-$(v))
# checks that no verdict depends on the load of the machine: tests/busy.sh
test-busy: all tools unit-programs
	@tests/busy.sh $(SUITES)
asan:
	tests/run.sh asan
tsan:
	tests/run.sh tsan
clean:
	rm -rf $(addprefix build/,release asan tsan clang bare cover merge corpus test bench)
	rm -f kvroute kvroutectl
.PHONY: deps demo demo-stop check test test-sanitized test-long test-busy asan tsan
.PHONY: it images compose-test oracle sim clean
.PHONY: bench $(addprefix bench-,agentic turns buffers buffer-cells index index-instructions \
	index-peers events sim crowd peers cells cells-events prefill prompt hostile model attack path \
	path-agent path-threads share share-sim share-store socket overload tokenizers)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
