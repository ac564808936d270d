#!/usr/bin/env bash
# One training on several GPUs of a SLURM cluster, which goes on where it was when the job is requeued:
#     sbatch scripts/slurm.sh model=informer data=ETTh1
# Lightning starts nothing here: srun starts one process per GPU, so ntasks-per-node must equal the GPUs of a node.
#SBATCH --job-name=forecast
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

set -euo pipefail

# The folder that all processes of this job step write to (forecast/config/distributed.py names it so).
run="outputs/slurm-$SLURM_JOB_ID-0"
last="$run/checkpoints/last.ckpt"

if [ -f "$last" ]; then
    # What was trained is in the checkpoint, and so are the overrides of the first start.
    exec srun python train.py "ckpt_path=$last" "hydra.run.dir=$run"
fi
exec srun python train.py "$@" trainer=ddp \
    "trainer.devices=$SLURM_NTASKS_PER_NODE" "trainer.num_nodes=$SLURM_NNODES" "hydra.run.dir=$run"
