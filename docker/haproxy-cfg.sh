#!/bin/bash
# haproxy-cfg.sh - print docker/haproxy.cfg: haproxy-conf/recipes/two-agents.cfg with the names of
# the compose network. The compose test checks that docker/haproxy.cfg equals this output.
set -eu
cd "$(dirname "$0")/.."
cat << 'HEAD'
# haproxy-conf/recipes/two-agents.cfg with the names of the compose network, printed by
# haproxy-cfg.sh.
HEAD
resolvers='# Docker'\''s own name server, because a container may return with another address.\
resolvers docker\
    nameserver dns 127.0.0.11:53\
    hold valid 1s\
'
sed -E \
	-e '1,/^global/{/^#/d}' \
	-e 's/^( +server s([1-4])) 192\.0\.2\.2[1-4]:8000$/\1 s\2:8000/' \
	-e 's/192\.0\.2\.10:940([01])/agent:940\1/' \
	-e 's/192\.0\.2\.11:940([01])/agent2:940\1/' \
	-e 's/check inter 2s fall 2 rise 1/check inter 500ms fall 1 rise 1/' \
	-e 's/^(    default-server .*)/\1 init-addr last,libc,none resolvers docker/' \
	-e 's/^(    server a[12] .*)/\1 init-addr last,libc,none resolvers docker/' \
	-e "s/^defaults kvroute-agent/$resolvers\\n&/" \
	haproxy-conf/recipes/two-agents.cfg
