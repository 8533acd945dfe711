#!/usr/bin/env bash
# Starts the ranks of one machine. Run it on every machine of the cloud in which the job continues:
#
#   MACHINES=2 MACHINE=0 HEAD=10.0.0.1 RANKS=2 ./torchrun.sh s3://bucket/tokens s3://bucket/run /disk/shards
#
# MACHINES: how many; MACHINE: number of this one; HEAD: address of machine 0; RANKS: processes of each machine. Further
# arguments are for train.py. The environment has the address and the keys of the store.
set -eu
cd "$(dirname "$0")"
exec torchrun --nnodes "${MACHINES:-1}" --node-rank "${MACHINE:-0}" --nproc-per-node "${RANKS:-1}" \
    --master-addr "${HEAD:-127.0.0.1}" --master-port "${PORT:-29500}" \
    train.py --data "$1" --checkpoints "$2" --shards "$3" "${@:4}"
