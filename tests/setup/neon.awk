# Reads the kernel's disassembly for 64-bit Arm. Fails where the inner loops have not become NEON vector instructions.
# Whether a fused instruction belongs is for the frozen vectors to say: here they are only counted.
BEGIN {
    FS = "\t"
    # One pass at least: the 32 exclusive ors of a double round, the polynomials of a pair, its square root.
    least["eor"] = 32; least["product"] = 16; least["fsqrt"] = 1
}

# The oracle is scalar by design, and no part of the fast path.
/^[0-9a-f]+ <.*>:$/ { fast = !/oracle/ }

fast && $3 ~ /^v[0-9]+\.4s/ {
    if ($2 ~ /^(fmul|fmla|fmls)$/) seen["product"]++
    if ($2 ~ /^(fmla|fmls)$/) seen["fused"]++
    if ($2 ~ /^(fadd|fsub|fsqrt)$/) seen[$2]++
}
fast && $2 == "eor" && $3 ~ /^v[0-9]+\.16b/ { seen["eor"]++ }

END {
    printf "NEON instructions: %d eor, %d fmul and fmla (%d of them fused), %d fadd, %d fsub, %d fsqrt\n",
        seen["eor"], seen["product"], seen["fused"], seen["fadd"], seen["fsub"], seen["fsqrt"]
    for (kind in least) {
        if (seen[kind] + 0 >= least[kind]) continue
        printf "too few of kind %s: %d, at least %d expected; are the loops still vectors?\n", kind, seen[kind],
            least[kind]
        bad = 1
    }
    exit bad
}
