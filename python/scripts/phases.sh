# Seconds of each phase of a script: sourced, after lib.sh. `print_phases` belongs into the script's trap for EXIT.
phases=()
phase_name=setup
phase_begun=$SECONDS
phase_cpu=0

# Sets `cpu` to the CPU time, in ms, of all programs that have ended. A program in the background counts once it is waited for.
read_cpu() {
    local file times time
    # Not in a subshell or pipe: its figures start at zero.
    file=$(mktemp)
    times >"$file"
    { read -r _; read -ra times; } <"$file"
    rm "$file"
    cpu=0
    # Such as 1m2.345s for the user's part and the system's.
    for time in "${times[@]}"; do
        time=${time%s}
        cpu=$((cpu + 60000 * ${time%m*} + 10#$(tr -d ., <<<"${time#*m}")))
    done
}

# Ends the current phase and begins the next one: `phase NAME [TEXT]`.
phase() {
    end_phase
    phase_name=$1 phase_begun=$SECONDS phase_cpu=$cpu
    say "$1${2:+: $2}"
}

# Notes the figures of the current phase. The argument follows its name.
end_phase() {
    read_cpu
    phases+=("$(printf '%6d s  %6d s of CPU  %s' $((SECONDS - phase_begun)) $(((cpu - phase_cpu) / 1000)) "$phase_name${1:-}")")
}

# Prints a line for each phase and the result. The argument is the exit status of the script.
print_phases() {
    if [ "$1" -eq 0 ]; then end_phase; else end_phase " (failed)"; fi
    say "seconds of each phase"
    printf '%s\n' "${phases[@]}"
    if [ "$1" -eq 0 ]; then say "all tests passed, in $SECONDS s"; else say "failed in the phase $phase_name, after $SECONDS s"; fi
}
