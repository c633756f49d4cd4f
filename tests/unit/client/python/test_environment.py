"""Rank, size and job from launchers' variables."""

import pytest
from mlxcomm.environment import find_place


def place(variables, **arguments):
    return find_place(environment=variables, **arguments)


# What each launcher sets for rank 1 of 4, and one variable that differs in another launch (None:
# nothing that it sets distinguishes launches).
LAUNCHERS = {
    "mlx.launch --backend nccl": (
        {"MLX_RANK": "1", "MLX_WORLD_SIZE": "4", "NCCL_HOST_IP": "10.0.0.1", "NCCL_PORT": "12345"},
        "NCCL_PORT"),
    "by hand": ({"MLX_RANK": "1", "MLX_WORLD_SIZE": "4"}, None),
    "mlxcommctl launch": (
        {"MLX_RANK": "1", "MLX_WORLD_SIZE": "4", "MLXCOMM_JOB": "launch-7"}, "MLXCOMM_JOB"),
    "Open MPI 5": (
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
         "PMIX_NAMESPACE": "prterun-host-7@1", "PMIX_RANK": "1"},
        "PMIX_NAMESPACE"),
    "Open MPI 4": (
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
         "OMPI_MCA_ess_base_jobid": "3735420929", "PMIX_RANK": "1"},
        "OMPI_MCA_ess_base_jobid"),
    "Open MPI 4, another mpirun with the same number": (
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "65077249",
         "OMPI_MCA_orte_hnp_uri": "65077248.0;tcp://192.0.2.2:34921", "PMIX_RANK": "1"},
        "OMPI_MCA_orte_hnp_uri"),
    "MPICH's Hydra, with a job": (
        {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_FD": "9", "HYDI_CONTROL_FD": "8",
         "MLXCOMM_JOB": "mine"}, "MLXCOMM_JOB"),
    "Slurm with PMI 2": (
        {"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_JOBID": "88.0", "PMI_FD": "9",
         "SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "88", "SLURM_STEP_ID": "0"},
        "SLURM_STEP_ID"),
    "Slurm with PMIx": (
        {"PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm.pmix.88.0", "SLURM_PROCID": "1",
         "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "4", "SLURM_JOB_ID": "88",
         "SLURM_STEP_ID": "0"},
        "SLURM_JOB_ID"),
    "torchrun below srun": (
        {"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "88", "MASTER_ADDR": "node-a",
         "MASTER_PORT": "29500", "SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "88",
         "SLURM_STEP_ID": "0"},
        "TORCHELASTIC_RUN_ID"),
    "PyTorch's operator for Kubernetes": (
        {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "train-master-0", "MASTER_PORT": "23456"},
        "MASTER_ADDR"),
    "PMI with a job": ({"PMI_RANK": "1", "PMI_SIZE": "4", "PMI_JOBID": "77"}, "PMI_JOBID"),
    "Slurm": (
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "88", "SLURM_STEP_ID": "0"},
        "SLURM_STEP_ID"),
    "torchrun": (
        {"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none",
         "MASTER_ADDR": "node-a", "MASTER_PORT": "29500", "LOCAL_RANK": "1"},
        "MASTER_PORT"),
}
by_launcher = pytest.mark.parametrize("variables, launch", LAUNCHERS.values(), ids=list(LAUNCHERS))


@by_launcher
def test_launchers_give_rank_and_size(variables, launch):
    found = place(variables)
    assert (found.rank, found.size) == (1, 4)


@by_launcher
def test_launches_are_different_jobs_if_the_launcher_distinguishes_them(variables, launch):
    if launch is None:
        assert place(variables).job == "default"
        return
    other = {**variables, launch: variables[launch] + "9"}
    assert place(variables).job != place(other).job


# Why: the number of a file descriptor may differ between hosts, and then the ranks of one launch
# would wait for each other in different jobs.
@by_launcher
def test_ranks_of_one_launch_find_the_same_job(variables, launch):
    own_to_a_rank = {"MLX_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PMI_FD",
                     "HYDI_CONTROL_FD", "SLURM_PROCID", "RANK", "LOCAL_RANK"}
    other = {name: "2" if name in own_to_a_rank else value for name, value in variables.items()}
    assert place(variables).job == place(other).job
    assert place(other).rank == 2


def test_arguments_and_the_jobs_own_variable_win():
    variables = {**LAUNCHERS["Slurm"][0], "MLXCOMM_JOB": "named"}
    assert place(variables) == ("named", 1, 4, True)
    assert place(variables, job="argument", rank=2, size=9)[:3] == ("argument", 2, 9)
    assert place({"MLX_RANK": "1"}, size=2)[1:3] == (1, 2)


def test_hostfile_may_be_an_object(tmp_path):
    file = tmp_path / "hosts"
    file.write_text('{"hosts": [{"ssh": "a"}, {"ssh": "b"}]}')
    assert place({"MLX_RANK": "1", "MLX_HOSTFILE": str(file)})[1:3] == (1, 2)


@pytest.mark.parametrize("variables, arguments, words", [
    ({"MLX_RANK": "one", "MLX_WORLD_SIZE": "2"}, {}, ['MLX_RANK="one"', "whole number"]),
    ({"MLX_RANK": "", "MLX_WORLD_SIZE": "2"}, {}, ['MLX_RANK=""']),
    ({"MLX_RANK": "-1", "MLX_WORLD_SIZE": "2"}, {}, ['MLX_RANK="-1"', "not negative"]),
    ({"MLX_RANK": "0", "MLX_WORLD_SIZE": "2.5"}, {}, ['MLX_WORLD_SIZE="2.5"']),
    ({"MLX_RANK": "2", "MLX_WORLD_SIZE": "2"}, {}, ["MLX_RANK: expected a rank below the size 2, got 2"]),
    ({"MLX_RANK": "0", "MLX_WORLD_SIZE": "0"}, {}, ["MLX_WORLD_SIZE: expected 1 or more, below 2^32, got 0"]),
    ({"MLX_RANK": "0"}, {}, ["MLX_RANK is set but MLX_WORLD_SIZE is not"]),
    ({"RANK": "0"}, {}, ["RANK is set but WORLD_SIZE is not"]),
    ({"MLX_RANK": "0", "MLX_HOSTFILE": "/no/such/file"}, {}, ['MLX_HOSTFILE="/no/such/file"']),
    ({}, {"rank": 1}, ["expected both or neither", "rank 1 and size none"]),
    ({}, {"size": 2}, ["expected both or neither", "rank none and size 2"]),
    ({}, {"rank": -1, "size": 2}, ["rank", "-1"]),
    ({"MLX_RANK": "0", "MLX_WORLD_SIZE": "2"}, {"rank": 5, "size": 2}, ["rank: expected", "size 2, got 5"]),
])
def test_errors_name_the_wrong_variable_or_argument(variables, arguments, words):
    with pytest.raises(ValueError) as raised:
        place(variables, **arguments)
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.parametrize("text", ["[]", "{}", "3", "not json", '{"hosts": {}}'])
def test_an_invalid_hostfile_is_an_error_that_names_it(tmp_path, text):
    file = tmp_path / "hosts"
    file.write_text(text)
    with pytest.raises(ValueError, match="MLX_HOSTFILE="):
        place({"MLX_RANK": "0", "MLX_HOSTFILE": str(file)})
