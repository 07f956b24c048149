# What is asked of a host that has no Python: POSIX sh, and of the usual tools those that are there.
#
# The loader reads this text line by line from stdin and evals it; commands follow on the same stdin. In front of it
# come engine_port and allowed (names of environment variables, as one regular expression).
#
#   @hello SECONDS            the host's clock                @file NAME     what follows with | in front is its text
#   @engine NAME PID PORT 1   one server, 1 when chosen       @gap WHAT WHY  separated by a tab
#   @sample {...}             one GPU sample                  @done look     as in collector.py
LC_ALL=C
export LC_ALL
if [ -n "$DFLASH_DOCTOR_ROOT" ]; then
  # a folder that stands for the host: its own commands only, and the plain tools of the shell
  root=$DFLASH_DOCTOR_ROOT
  host_path=${DFLASH_DOCTOR_COMMANDS:-$root/usr/local/bin:$root/usr/bin}
else
  root=
  PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/nvidia/bin
  host_path=$PATH
fi
tab=$(printf '\t')

gap() { printf '@gap %s\t%s\n' "$1" "$(printf %s "$2" | tr '\n\t' '  ' | hide | cut -c1-600)"; }
has() { (PATH=$host_path; command -v "$1" >/dev/null 2>&1); }
within() { # SECONDS COMMAND...
  seconds=$1; shift
  if command -v timeout >/dev/null 2>&1; then timeout "$seconds" "$@"; else "$@"; fi
}
# secrets are hidden here, before anything travels; rather one value too many than one too few
name='[A-Za-z0-9_.-]*([Kk][Ee][Yy]|[Tt][Oo][Kk][Ee][Nn]|[Ss][Ee][Cc][Rr][Ee][Tt]|[Pp][Aa][Ss][Ss][Ww]([Oo][Rr])?[Dd]|[Aa][Uu][Tt][Hh]([Oo][Rr][Ii][Zz][Aa][Tt][Ii][Oo][Nn])?)'
hide() {
  sed -E -e "s/([Bb]earer )[A-Za-z0-9._~+\/=-]{6,}/\1***/g" \
    -e "s/(^|[^A-Za-z0-9])(hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{6,})/\1***/g" \
    -e "s,://[^/ @]*@,://***@,g" \
    -e "s/($name[\"']?=[\"']?)[^\"' ,;)}&]+/\1***/g" \
    -e "s/($name[\"']?: ?\[?[\"'])[^\"']*/\1***/g" \
    -e "s/(--$name' ')[^']*/\1***/g" \
    -e "s/(--$name +)[^' ]+/\1***/g"
}
put() { printf '@file %s\n' "$1"; hide | awk '{ print "|" $0 }'; }
# access-log lines, users' prompts, and all but the last state of a progress bar
clean() {
  sed -e 's/.*\r\([^\r]\)/\1/' | grep -avE '"(GET|POST|PUT|HEAD|OPTIONS|DELETE) [^"]*" 2[0-9][0-9]|(Received|Added) request [^ ]*: (prompt|params)|(Receive|Finish): obj=|[^0-9][0-9]{1,2}%(\||( Completed ))'
}

# -- who serves here ---------------------------------------------------------------------------------------------------
quoted() { tr '\0' '\n' <"$root/proc/$1/cmdline" | sed "s/'/'\\\\''/g; s/.*/'&'/" | tr '\n' ' '; }
serves() { # prints vllm or sglang when this process is a server
  tr '\0' ' ' <"$root/proc/$1/cmdline" 2>/dev/null | sed -nE \
    -e 's,^([^ ]*/)?(python|pypy)[0-9.]* (-[A-Za-z]+ )*(-m vllm\.entrypoints[^ ]*|([^ ]*/)?vllm serve|[^ ]*vllm/entrypoints/[^ ]*\.py) .*,vllm,p;t' \
    -e 's,^([^ ]*/)?vllm serve .*,vllm,p;t' \
    -e 's,^([^ ]*/)?(python|pypy)[0-9.]* (-[A-Za-z]+ )*(-m sglang\.launch_server|([^ ]*/)?sglang serve|[^ ]*sglang/launch_server\.py) .*,sglang,p;t' \
    -e 's,^([^ ]*/)?sglang serve .*,sglang,p'
}
parent() { sed -n 's/^PPid:[^0-9]*//p' "$root/proc/$1/status" 2>/dev/null; }
port_of() { # PID ENGINE
  found=$(tr '\0' '\n' <"$root/proc/$1/cmdline" | sed -nE '/^--port$/{n;p;};s/^--port=//p' | tail -n 1)
  case $found in '' | *[!0-9]*) if [ "$2" = vllm ]; then echo 8000; else echo 30000; fi ;; *) echo "$found" ;; esac
}

printf '@hello %s\n' "$(date +%s)"
pid= engine= port=
for file in $(grep -lsaE 'vllm|sglang' "$root"/proc/[0-9]*/cmdline); do
  this=${file%/cmdline}; this=${this##*/}
  kind=$(serves "$this")
  [ -n "$kind" ] || continue
  above=$(parent "$this")
  [ -n "$above" ] && [ -n "$(serves "$above")" ] && continue
  its=$(port_of "$this" "$kind")
  if [ -z "$pid" ] && { [ -z "$engine_port" ] || [ "$engine_port" = "$its" ]; }; then
    pid=$this engine=$kind port=$its
    printf '@engine %s\t%s\t%s\t1\n' "$kind" "$this" "$its"
  else
    printf '@engine %s\t%s\t%s\t0\n' "$kind" "$this" "$its"
  fi
done

# -- the engine --------------------------------------------------------------------------------------------------------
get() { # PATH
  if command -v curl >/dev/null 2>&1; then curl -fsS -m 5 "http://127.0.0.1:$port$1" 2>&1
  elif command -v wget >/dev/null 2>&1; then wget -qO- -T 5 "http://127.0.0.1:$port$1" 2>&1
  else echo "neither curl nor wget on this host"; return 1; fi
}
ask() { # NAME FILE PATH
  if answer=$(get "$3"); then printf '%s\n' "$answer" | put "$2"
  else gap "$1" "GET $3 on port $port: $answer"; fi
}
scrape() {
  [ -n "$pid" ] || return 0
  if answer=$(get /metrics); then
    { printf '# scrape %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"; printf '%s\n' "$answer"; } | put metrics.prom
  else gap metrics "GET /metrics on port $port: $answer"; fi
}
banner='non-default args: |API server version |server_args='
excerpt() { # FILE: the first part of the current start, and the tail
  size=$(wc -c <"$1")
  if [ "$size" -le 1300000 ]; then clean <"$1"; return; fi
  back=48000000
  at=$(tail -c $back "$1" | grep -abE "$banner" 2>/dev/null | tail -n 1 | cut -d: -f1)
  if [ -n "$at" ] && [ "$at" -gt 8192 ]; then
    tail -c $back "$1" | tail -c +$((at - 8192)) | head -c 3000000 | clean | head -c 786432
    printf '\n[dflash-doctor: a part of the log may be left out here]\n'
  fi
  tail -c 3000000 "$1" | clean | tail -c 524288
}
log() {
  out=$(readlink "$root/proc/$pid/fd/1" 2>/dev/null)
  held=$(sed -nE 's/.*([0-9a-f]{64}).*/\1/p' "$root/proc/$pid/cgroup" 2>/dev/null | head -n 1)
  unit=$(sed -nE 's,.*/([A-Za-z0-9@._-]+\.service).*,\1,p' "$root/proc/$pid/cgroup" 2>/dev/null | tail -n 1)
  if [ -n "$held" ]; then
    for tool in docker podman; do
      has $tool || continue
      (PATH=$host_path:$PATH; within 15 $tool logs --tail 20000 "$held" 2>&1) | clean | tail -c 1300000 | put server.log
      return
    done
    gap log "container $held: neither docker nor podman on this host"
  elif [ -f "$root/proc/$pid/fd/1" ] || { [ -n "$root" ] && [ -f "$root$out" ]; }; then
    if [ -n "$root" ] && [ -f "$root$out" ]; then excerpt "$root$out" | put server.log
    else excerpt "$root/proc/$pid/fd/1" | put server.log; fi
  elif [ -n "$unit" ] && has journalctl; then
    (PATH=$host_path:$PATH; within 15 journalctl --no-pager --quiet --all -o cat -b --unit "$unit" 2>&1) | clean | tail -c 1300000 | put server.log
  else gap log "the engine's output goes to ${out:-a place that cannot be seen}"; fi
}

if [ -n "$pid" ]; then
  quoted "$pid" | put cmdline
  if [ -r "$root/proc/$pid/environ" ]; then
    tr '\0' '\n' <"$root/proc/$pid/environ" | grep -E "$allowed" | put environ
  else gap environment "/proc/$pid/environ: Permission denied"; fi
  log
  scrape
  ask models models.json /v1/models
  if [ "$engine" = vllm ]; then ask version version.json /version
  else ask "server info" server_info.json /server_info; fi
elif [ -n "$engine_port" ]; then gap engine "no engine on port $engine_port"
else gap engine "no vLLM or SGLang server was found"; fi

# -- GPUs --------------------------------------------------------------------------------------------------------------
smi() { (PATH=$host_path:$PATH; within 15 nvidia-smi "$@" 2>&1); }
fields=index,name,driver_version,pstate,clocks.sm,clocks.max.sm,clocks.mem,clocks.max.mem,power.draw,power.limit,power.default_limit,temperature.gpu,utilization.gpu,utilization.memory,memory.used,memory.total,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max
sample() { # LOAD
  smi "--query-gpu=$fields" --format=csv,noheader,nounits | awk -F', *' -v names="$fields" -v load="$1" -v t="$(date +%s)" '
    BEGIN { n = split(names, name, ",") }
    NF == n && $1 ~ /^[0-9]+$/ {
      row = ""
      for (i = 1; i <= n; i++) {
        v = $i; gsub(/["\\]/, "", v); key = name[i]
        sub(/clocks_throttle_reasons/, "clocks_event_reasons", key)
        if (v ~ /^\[?(N\/A|Not Supported|Unsupported)\]?$/) v = "null"
        else if (v ~ /^\[|ERR!|[Ee]rror/) v = "{\"error\": \"" v "\"}"
        else if (v !~ /^-?[0-9]+(\.[0-9]+)?$/ || key == "driver_version") v = "\"" v "\""
        row = row (i > 1 ? ", " : "") "\"" key "\": " v
      }
      all = all (all == "" ? "" : ", ") "{" row "}"
    }
    END { if (all != "") printf "@sample {\"t\": %s, \"load\": %s, \"gpus\": [%s]}\n", t, load, all }'
}
if has nvidia-smi; then
  for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
    if smi "--query-gpu=$reasons" --format=csv,noheader >/dev/null; then fields=$fields,$reasons; break; fi
  done
  sample false
  { smi topo -m; echo; smi topo -p2p r; } | put topology.txt
  smi -q -x | put nvidia-smi.xml
else gap gpu "nvidia-smi: not found on this host"; fi

# -- the host ----------------------------------------------------------------------------------------------------------
if has dmesg; then
  if lines=$(PATH=$host_path:$PATH; within 8 dmesg 2>&1); then
    printf '%s\n' "$lines" | grep -aE 'NVRM|Xid|nvidia|AER|pcieport|mce:|[Tt]hermal|throttl|oom-kill|hung_task|Linux version' | tail -c 65536 | put dmesg.txt
  else gap "kernel log" "dmesg: $lines"; fi
fi
plain() { tr -d '"\\\n' | tr -s ' \t' ' '; }
first() { sed -n "s/^$2[^:]*: *//p" "$root/proc/$1" 2>/dev/null | head -n 1 | plain; }
{
  printf '{"uname": "%s %s"' "$(plain <"$root/proc/sys/kernel/ostype")" "$(plain <"$root/proc/sys/kernel/osrelease")"
  printf ', "cpu_model": "%s"' "$(first cpuinfo 'model name')"
  cpus=$(grep -c '^processor' "$root/proc/cpuinfo")
  printf ', "cpus": %s' "${cpus:-null}"
  read -r one five fifteen _ <"$root/proc/loadavg" && printf ', "load": [%s, %s, %s]' "$one" "$five" "$fifteen"
  at=$root/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
  [ -r "$at" ] && printf ', "governor": "%s"' "$(plain <"$at")"
  printf '}\n'
} 2>/dev/null | put host.json
gap packages "the names of the engine's packages are read with Python only"
echo "@done look"

# -- while the load runs -----------------------------------------------------------------------------------------------
sampling=
halt() { [ -z "$sampling" ] || kill "$sampling" 2>/dev/null; sampling=; }
trap halt EXIT
while IFS= read -r command; do
  case $command in
    load-begin)
      scrape
      if has nvidia-smi && [ -z "$sampling" ]; then
        while :; do sample true; sleep 1; done </dev/null &
        sampling=$!
      fi ;;
    load-end)
      halt
      scrape
      if has nvidia-smi; then sample false; fi ;;
  esac
  echo "@done $command"
  [ "$command" = stop ] && break
done
halt
