# kvroute - read from top to bottom.
#
#   make            kvroute and kvroutectl at the top of the tree
#   make demo       a real HAProxy, the agent and four stub engines: the main job, in one table
#   make check      what a developer waits for: units, configuration, .vtc files
#   make test       everything that is checked; the last line says how many passed
#   make bench      the figures
#   make deps       what is missing of Debian's packages (demo and test call it)

ifeq ($(origin CC),default)
CC      := gcc
endif
B       ?= build/release
SAN     ?=
WERROR  ?=
OPT     ?= -O2
VERSION := 0.1.0

# V=1 shows every command, otherwise a line each; QUIET=1 only what a compiler complains of
say = $(if $(V),,@$(if $(QUIET),,echo "  $(1)";))

CFLAGS  ?= $(OPT) -g
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
           -Wwrite-strings -Wvla -Wformat=2 -Wno-unused-parameter -Wno-missing-field-initializers \
           $(if $(findstring clang,$(CC)),,-Wno-format-truncation)
ALL_CFLAGS := -std=gnu11 -D_GNU_SOURCE -I. -DKVROUTE_VERSION='"$(VERSION)"' -pthread -fno-strict-aliasing \
           -fstack-protector-strong $(WARN) $(WERROR) $(SAN) $(CFLAGS)
ALL_LDFLAGS := -pthread -Wl,-z,relro,-z,now $(SAN) $(LDFLAGS)
LIBS    := -lev -lyaml -lseccomp -lpcre2-8 -lm

# ---- what is built: "uses_X" names the libraries that X may use, and its tests link no other ----

MODULES := spoe base spop-check tok jinja chat prompt index policy feed fleet route sim serve os loop conf ctl

dir_spoe   := spoe
dir_base   := agent/base
dir_spop-check := spop-check
dir_tok    := agent/tok
dir_jinja  := agent/jinja
dir_chat   := agent/chat
dir_prompt := agent/prompt
dir_index  := agent/index
dir_policy := agent/policy
dir_feed   := agent/feed
dir_fleet  := agent/fleet
dir_route  := agent/route
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
uses_prompt := prompt chat tok jinja base
uses_index  := index base
uses_policy := policy base
uses_feed   := feed base
uses_fleet  := fleet policy feed base
uses_route  := route fleet prompt chat tok jinja index policy feed base
uses_sim    := sim $(uses_route)
uses_serve  := serve spoe $(uses_route)
uses_os     := os base
uses_loop   := loop os $(uses_serve)
uses_conf   := conf $(uses_loop)
# its tests need no more; the rest of what it calls is linked by kvroutectl only
uses_ctl    := ctl base

all: kvroute kvroutectl
.PHONY: all
.SECONDARY:

define module
lib_$(1) := $$(B)/lib$(1).a
obj_$(1) := $$(patsubst %.c,$$(B)/%.o,$$(sort $$(wildcard $$(dir_$(1))/*.c)))
$$(lib_$(1)): $$(obj_$(1))
	@rm -f $$@; mkdir -p $$(@D)
	$$(call say,AR   $$@)ar rcs $$@ $$^
endef
$(foreach m,$(MODULES),$(eval $(call module,$(m))))

libs = $(foreach m,$(1),$(B)/lib$(m).a)
link = $(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC   $@)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

# The hash of segments, once more with AVX2; agent/tok/segcache.c asks the CPU.
ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine)),)
$(B)/agent/tok/segcache_avx2.o: ALL_CFLAGS += -mavx2 -mbmi2
endif

$(B)/kvroute: $(B)/agent/main.o $(call libs,$(uses_conf))
	$(link) $(LIBS)
$(B)/kvroutectl: $(patsubst %.c,$(B)/%.o,$(wildcard agent/ctl/*.c)) $(call libs,spop-check sim $(uses_conf))
	$(link) $(LIBS)

kvroute kvroutectl: %: $(B)/%
	cp -f $< $@

# ---- unit tests: tests/unit/<module>/test_*.c links its module and what that may use --------

UNIT := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/unit/*/test_*.c)))

# test_*_fault.c decides which allocations fail: tests/unit/fault.h
FAULT := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=arena_alloc

define unit_module
$$(B)/tests/unit/$(1)/test_%: $$(B)/tests/unit/$(1)/test_%.o $$(call libs,$$(uses_$(1)))
	$$(link) $$(if $$(filter %_fault,$$@),$$(FAULT)) -lcmocka $$(if $$(filter os loop conf,$(1)),$$(LIBS),-lpcre2-8 -lm)
endef
$(foreach m,$(MODULES),$(eval $(call unit_module,$(m))))

unit-programs: $(UNIT)
unit: unit-programs
	tests/unit/run.sh $(UNIT)
# those where threads share something, for ThreadSanitizer
unit-threads: $(filter %_threads,$(UNIT))
	tests/unit/run.sh $^
.PHONY: unit-programs unit unit-threads

# ---- test tools and benches: one .c each ---------------------------------------------------

SHIMS := $(patsubst %.c,$(B)/%.so,$(wildcard tests/tools/*_shim.c))
TOOLS := $(patsubst %.c,$(B)/%,$(filter-out %_shim.c,$(sort $(wildcard tests/tools/*.c)))) $(SHIMS)
TOOL_LIB := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/tools/lib/*.c))) $(B)/agent/base/err.o
BENCH := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/bench/bench_*.c)))

$(B)/tests/tools/%: $(B)/tests/tools/%.o $(call libs,$(uses_serve))
	$(link) $(LIBS)

# For LD_PRELOAD, under any program: never with a sanitizer of its own.
$(B)/%_shim.so: %_shim.c tests/tools/shim.h
	@mkdir -p $(@D)
	$(call say,CC   $@)$(CC) -std=gnu11 -D_GNU_SOURCE -I. $(WARN) $(WERROR) -O1 -g -fPIC -shared -o $@ $< -ldl

# The engine and the load generator know nothing of the product: what they say of it is worth more.
$(B)/tests/tools/stub_engine $(B)/tests/tools/chat_load $(B)/tests/tools/http_pace: $(B)/%: $(B)/%.o $(TOOL_LIB)
	$(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lev -lm

# Agents and clients of SPOP: the library, and nothing of the agent.
$(B)/tests/tools/noop_spoa $(B)/tests/tools/spop_load: $(B)/%: $(B)/%.o $(TOOL_LIB) $(B)/libspoe.a
	$(call say,LINK $@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lev -lm

$(B)/tests/bench/%: $(B)/tests/bench/%.o $(call libs,$(uses_conf))
	$(link) $(LIBS)

BENCH_INDEX := $(patsubst %.c,$(B)/%.o,$(sort $(wildcard tests/bench/index/*.c)))
$(B)/tests/bench/bench_index: $(BENCH_INDEX)
$(B)/tests/bench/gen_index: $(B)/tests/bench/index/pbw1.o
$(B)/tests/bench/bench_index.o $(B)/tests/bench/bench_index.ok: ALL_CFLAGS += -DBENCH_FLAGS='"$(CFLAGS) $(SAN)"'
tools: $(TOOLS)
.PHONY: tools

# What a compiler has to say of all of tests/, without making code.
$(B)/%.ok: %.c
	@mkdir -p $(@D)
	$(call say,CHECK $@)$(CC) $(ALL_CFLAGS) -fsyntax-only $< && touch $@
compiles: $(patsubst %.c,$(B)/%.ok,$(sort $(shell find tests -name '*.c')))
.PHONY: compiles

# ---- fuzzing: one .c per target, with libFuzzer or (FUZZER=) a main that replays files: tests/fuzz/README.md

FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,%,$(sort $(wildcard tests/fuzz/*.c)))
FUZZER ?=

$(B)/tests/fuzz/%: $(B)/tests/fuzz/%.o $(if $(FUZZER),,$(B)/tests/fuzz/lib/replay.o) $(call libs,sim $(uses_conf))
	$(link) $(FUZZER) $(LIBS)
fuzz-programs: $(FUZZ_TARGETS:%=$(B)/tests/fuzz/%)
fuzz fuzz-replay fuzz-merge fuzz-coverage fuzz-ledger:
	@tests/fuzz/run.sh $(@:fuzz-%=%)
.PHONY: fuzz-programs fuzz fuzz-replay fuzz-merge fuzz-coverage fuzz-ledger

# ---- what a person types ---------------------------------------------------------------------

deps:
	@tests/tools/deps.sh
demo:
	@tests/tools/deps.sh build demo
	@$(MAKE) --no-print-directory -s all tools
	@python3 tests/it/demo.py
demo-stop:
	@python3 tests/it/demo.py stop
test:
	@tests/tools/deps.sh
	@echo "building (V=1 shows how)"
	@$(MAKE) --no-print-directory $(if $(V),,QUIET=1 -s) all tools unit-programs
	@tests/run.sh
check: all tools unit-programs
	@tests/run.sh check
it: all tools
	tests/run.sh conf recipes vtc stories
compose-test: all tools
	docker/compose-test.sh
bench: $(BENCH)
	@for b in $^; do $$b || exit 1; done
# whole workloads, in build/bench/ for others as well: tests/bench/index.sh
bench-index bench-index-instructions: $(B)/tests/bench/bench_index $(B)/tests/bench/gen_index
	@B=$(B) tests/bench/index.sh $(@:bench-index-%=%)
# what the rules are worth against engines in memory
bench-sim: all
	@python3 tests/bench/sim.py
# text into ids: make bench-prompt TOK=tokenizer.json TEXTS="english=FILE chinese=FILE"
bench-prompt: $(B)/tests/bench/bench_bpe
	@$< $(TOK) $(TEXTS)
# what bodies cost that were made to cost much, for each family of tokenizers there is
HOSTILE_DATA ?= ../shared/data/tokenizers
bench-hostile: $(B)/tests/bench/bench_hostile
	@tests/bench/hostile.sh $< $(HOSTILE_DATA)
# instructions of a request with and without the message "model"
bench-model: $(B)/tests/bench/bench_model
	@B=$(B) tests/bench/model.sh
# good clients beside hostile ones, on a real HAProxy
bench-attack: all tools
	@python3 tests/bench/attack.py
# and what a prefix that many want makes of them
bench-crowd: all
	@python3 tests/bench/crowd.py
# in which cells of public traces a published rule is ahead of cost
bench-cells: all
	@python3 tests/bench/cells.py
# kvroute beside the routers that are installed, live; SMG=path, SGLANG=path, PEERS, SEEDS: tests/bench/peers.py
bench-peers: all tools
	@python3 tests/bench/peers.py
bench-path: all tools
	@python3 tests/bench/path.py
bench-socket: all tools
	@python3 tests/bench/notifies.py
bench-overload: all tools
	@python3 tests/bench/overload.py
# ids and speed against tokenizers and tiktoken of PyPI, ROUNDS texts made up for each vocabulary; and chat templates
# against Debian's python3-jinja2
TEMPLATES ?= $(wildcard ../shared/data/tokenizers/chat/templates/*.jinja) tests/data/tok/llama.chat_template.jinja
oracle: all
	@if python3 -c 'import jinja2' 2> /dev/null; then nice python3 tests/tools/oracle_jinja.py -n $${CONVERSATIONS:-4} $(TEMPLATES); \
	 else echo "skipped: chat templates: there is no python3-jinja2"; fi
	@python3 tests/tools/oracle_engine.py
	@python3 tests/tools/oracle.py
# tokenizers in the data of other PyPI packages (some 90 MB), each against its own library
.PHONY: oracle-wild
oracle-wild: all
	@python3 tests/tools/oracle_wild.py
# what the agent expects in the caches of real engines that run here:
# ENGINES="127.0.0.1:8001 ..." TOKENIZER=tokenizer.json
.PHONY: engine-test
engine-test: all
	@python3 tests/it/engine.py
# the agent over SPOP against simulated engines; CELLS, LIMIT, PEERS: tests/sim/sim.py
sim: all
	@python3 tests/sim/sim.py
# what takes longer than everyone wants to wait
test-long: all tools
	@tests/run.sh notifies-10m model-long model-asan failures-long scarce-long slack-long socket-asan $(foreach v,3.0 3.2,promise-1-$(v) reload-$(v) feed-$(v))
# whether a verdict depends on how busy the machine is: tests/busy.sh
test-busy: all tools unit-programs
	@tests/busy.sh $(SUITES)
asan:
	tests/run.sh asan
tsan:
	tests/run.sh tsan
clean:
	rm -rf build/release build/asan build/tsan build/clang build/cover build/merge build/corpus build/test build/bench kvroute kvroutectl
.PHONY: deps demo demo-stop check test it compose-test bench bench-index bench-index-instructions bench-sim bench-crowd bench-peers bench-cells bench-prompt bench-hostile bench-model bench-attack bench-path bench-socket bench-overload oracle sim test-long test-busy asan tsan clean

-include $(shell find $(B) -name '*.d' 2>/dev/null)
