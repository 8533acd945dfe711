#!/usr/bin/env bash
#SBATCH --job-name=three-clouds
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#
# In this folder, where store.env has the address and the keys of the store:
#
#   DATA=s3://bucket/tokens CHECKPOINTS=s3://bucket/run sbatch slurm.sh
#
# A job that is requeued starts from the newest checkpoint, and finds the shards of machines that it was on before.
set -eu
cd "$SLURM_SUBMIT_DIR"
set -a
. ./store.env
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MACHINES=$SLURM_JOB_NUM_NODES RANKS=${RANKS:-2}
set +a
srun bash -c 'MACHINE=$SLURM_NODEID exec ./torchrun.sh "$@"' torchrun \
    "$DATA" "$CHECKPOINTS" "${SHARDS:-/tmp/three-clouds-shards}"
