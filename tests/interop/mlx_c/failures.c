// Errors, as the handler and as mlxcomm_mlx_last_error gets it.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checked.h"
#include "scenarios.h"

static void Wrong(int returned, const char* text) {
  CheckFailed(returned, MLXCOMM_INVALID_ARGUMENT, -1, text);
}

static mlx_array Ones(int count) {
  mlx_array ones = mlx_array_new();
  OK(mlx_ones(&ones, &count, 1, MLX_FLOAT32, cpu));
  return ones;
}

static int Sum(mlx_distributed_group group, int count, uint64_t timeout_ns) {
  mlx_array res = mlx_array_new();
  OK(mlxcomm_mlx_all_reduce(&res, Ones(count), MLXCOMM_SUM, group, timeout_ns, cpu));
  return mlx_array_eval(res);
}

void WrongArguments(mlx_distributed_group world) {
  const int rank = mlx_distributed_group_rank(world), length = 3;
  const mlx_array x = Ones(3), empty = mlx_array_new();
  const uint64_t counts[] = {3, 3}, other[] = {1, 2}, huge[] = {UINT64_MAX, 0};
  mlx_distributed_group group = mlx_distributed_group_new();
  mlx_array res = mlx_array_new(), whole = mlx_array_new(), scalar = mlx_array_new_float(1);
  mlx_string name = mlx_string_new();
  KeepErrors();
  Wrong(mlxcomm_mlx_all_reduce(NULL, x, MLXCOMM_SUM, world, 0, cpu), "res: expected a pointer");
  Wrong(mlxcomm_mlx_all_reduce(&res, empty, MLXCOMM_SUM, world, 0, cpu), "got an empty one");
  mlxcomm_mlx_request request = mlxcomm_mlx_request_of(MLXCOMM_BARRIER, world, 0, cpu);
  Wrong(mlxcomm_mlx_operate(&res, x, &request),
        "kind: expected an mlxcomm_kind other than barrier, got 5");
  request.kind = (mlxcomm_kind)-1;
  Wrong(mlxcomm_mlx_operate(&res, x, &request), "other than barrier, got -1");
  request.struct_size = 8;
  Wrong(mlxcomm_mlx_operate(&res, x, &request), "sizeof(mlxcomm_mlx_request)");
  Wrong(mlxcomm_mlx_operate(&res, x, NULL), "sizeof(mlxcomm_mlx_request)");
  Wrong(mlxcomm_mlx_all_reduce(&res, x, (mlxcomm_operator)0, world, 0, cpu),
        "all_reduce: op: expected an mlxcomm_operator, got 0");
  Wrong(mlxcomm_mlx_all_reduce(&res, x, (mlxcomm_operator)99, world, 0, cpu), "got 99");
  Wrong(mlxcomm_mlx_all_reduce(&res, x, MLXCOMM_AND, world, 0, cpu), "and");
  OK(mlx_astype(&whole, x, MLX_INT32, cpu));
  Wrong(mlxcomm_mlx_all_reduce(&res, whole, MLXCOMM_MEAN, world, 0, cpu), "mean");
  Wrong(mlxcomm_mlx_reduce(&res, x, -1, MLXCOMM_SUM, world, 0, cpu),
        "reduce: root: expected a rank, got -1");
  Wrong(mlxcomm_mlx_reduce(&res, x, 2, MLXCOMM_SUM, world, 0, cpu),
        "root: expected a rank below 2, got 2");
  Wrong(mlxcomm_mlx_broadcast(&res, x, INT_MAX, world, 0, cpu), "got 2147483647");
  Wrong(mlxcomm_mlx_reduce_scatter(&res, x, MLXCOMM_SUM, world, 0, cpu),
        "x: expected a leading axis divisible by 2");
  Wrong(mlxcomm_mlx_scatter(&res, scalar, 0, world, 0, cpu), "got shape ()");
  Wrong(mlxcomm_mlx_all_to_all(&res, x, world, 0, cpu), "got shape (3)");
  Wrong(mlxcomm_mlx_gather(&res, x, 9, world, 0, cpu), "below 2, got 9");
  Wrong(mlxcomm_mlx_all_gather_v(&res, x, counts, 1, world, 0, cpu),
        "one for each of 2 ranks, got 1");
  Wrong(mlxcomm_mlx_all_gather_v(&res, x, huge, 2, world, 0, cpu), "with a sum below 2^31");
  Wrong(mlxcomm_mlx_all_gather_v(&res, scalar, NULL, 0, world, 0, cpu), "got a scalar");
  Wrong(mlxcomm_mlx_all_to_all_v(&res, x, NULL, other, 2, world, 0, cpu), "expected a table");
  Wrong(mlxcomm_mlx_all_to_all_v(&res, x, counts, counts, 2, world, 0, cpu),
        "send_counts: expected 3 in total, the rows of x, got 6");
  Wrong(mlxcomm_mlx_all_to_all_v(&res, x, other, NULL, 3, world, 0, cpu), "2 ranks, got 3");
  Wrong(mlxcomm_mlx_send(&res, x, rank, 0, world, 0, cpu), "expected another rank");
  Wrong(mlxcomm_mlx_send(&res, x, -5, 0, world, 0, cpu), "send: dst: expected a rank, got -5");
  Wrong(mlxcomm_mlx_recv(&res, NULL, 1, MLX_FLOAT32, 0, 0, nothing, world, 0, cpu),
        "shape: expected");
  Wrong(mlxcomm_mlx_recv(&res, &length, 1, (mlx_dtype)77, 1 - rank, 0, nothing, world, 0, cpu),
        "dtype: expected an mlx_dtype, got 77");
  Wrong(mlxcomm_mlx_recv_like(&res, x, 2, 0, world, 0, cpu), "source: expected another rank");
  Wrong(mlxcomm_mlx_split(&group, world, -2, 0, NULL, 0), "color: expected 0 or more");
  Wrong(mlxcomm_mlx_split(&group, world, 0, 0, "", 0), "name");
  Wrong(mlxcomm_mlx_split(&group, world, 0, 0, "\xff", 0), "name");
  Wrong(mlxcomm_mlx_shrink(&group, world, 0), "has not failed");
  Wrong(mlxcomm_mlx_leave(world, NULL), "why: expected a text");
  Wrong(mlxcomm_mlx_name(NULL, world), "res: expected a pointer");
  Wrong(mlxcomm_mlx_init(NULL, true, NULL), "res: expected a pointer");
  mlxcomm_mlx_join_options options;
  memset(&options, 0, sizeof options);
  Wrong(mlxcomm_mlx_join(&group, &options), "struct_size of 0");
  mlxcomm_mlx_join_options_init(&options);
  options.rank = 5;
  options.size = 2;
  Wrong(mlxcomm_mlx_join(&group, &options), "rank: expected a rank below the size 2, got 5");
  // None of them changed anything, and the group still works.
  CHECK(res.ctx == NULL && group.ctx == NULL && name.ctx == NULL);
  CHECK(errors == 37);
  mlxcomm_mlx_error error;
  mlxcomm_mlx_last_error(&error);
  CHECK(error.code == MLXCOMM_INVALID_ARGUMENT && error.node[0] == '\0' && error.pid == 0);
  CHECK(mlxcomm_mlx_find_error(&error, "nobody said this") == 1);
  CHECK(mlxcomm_mlx_find_error(NULL, error_text) == 1 && mlxcomm_mlx_find_error(&error, NULL) == 1);
  OK(Sum(world, 3, 0));
}

// All ranks get an error with each rank's call; other groups still work.
void Mismatch(mlx_distributed_group world) {
  const int rank = mlx_distributed_group_rank(world);
  KeepErrors();
  const int failed = Sum(world, rank + 1, 0);
  CheckFailed(failed, MLXCOMM_MISMATCH, 1, "float32[2]");
  CHECK(strstr(error_text, "float32[1]") != NULL);
  mlxcomm_mlx_error error;
  OK(mlxcomm_mlx_find_error(&error, error_text));
  mlx_string name = mlx_string_new();
  OK(mlxcomm_mlx_name(&name, world));
  CHECK(strcmp(error.group, mlx_string_data(name)) == 0);
  CHECK(error.node[0] != '\0' && error.pid != 0);
  CheckFailed(mlxcomm_mlx_check(world), MLXCOMM_MISMATCH, 1, "float32[2]");
  CheckFailed(mlxcomm_mlx_barrier(world, 0), MLXCOMM_MISMATCH, 1, "float32[1]");
  OK(mlxcomm_mlx_shrink(&world, world, 0));
  CHECK(mlx_distributed_group_size(world) == 2);
  OK(Sum(world, 5, 0));
  OK(Sum(none, 5, 0));
}

void Late(mlx_distributed_group world) {
  KeepErrors();
  if (mlx_distributed_group_rank(world) == 1) {
    Say("late");
    Await();
    return;
  }
  CheckFailed(Sum(world, 4, 300000000), MLXCOMM_DEADLINE_EXCEEDED, 1, "rank 1");
  CheckFailed(mlxcomm_mlx_check(world), MLXCOMM_DEADLINE_EXCEEDED, 1, "rank 1");
}

static void SayFailure(void) {
  mlxcomm_mlx_error error;
  OK(mlxcomm_mlx_find_error(&error, error_text));
  Say("failed %s rank %d node %s pid %llu", mlxcomm_code_name(error.code), error.rank, error.node,
      (unsigned long long)error.pid);
}

void Loop(mlx_distributed_group world) {
  KeepErrors();
  OK(Sum(world, 1000, 0));
  Say("looping");
  while (Sum(world, 1000, 0) == 0) {
  }
  SayFailure();
  CHECK(mlxcomm_mlx_check(world) == 1);
}

void Shrink(mlx_distributed_group world) {
  const int size = mlx_distributed_group_size(world);
  Loop(world);
  mlx_distributed_group rest = mlx_distributed_group_new(), again = mlx_distributed_group_new();
  OK(mlxcomm_mlx_shrink(&rest, world, 0));
  CHECK(mlx_distributed_group_size(rest) == size - 1);
  OK(mlx_distributed_group_free(world));
  OK(Sum(rest, 10, 0));
  OK(mlxcomm_mlx_init(&again, true, NULL));
  CHECK(mlx_distributed_group_size(again) == size - 1);
  CHECK(mlx_distributed_group_rank(again) == mlx_distributed_group_rank(rest));
  OK(Sum(again, 10, 0));
  OK(Sum(none, 10, 0));
  Say("%d go on", size - 1);
}

static mlxcomm_mlx_join_options Options(void) {
  mlxcomm_mlx_join_options options;
  mlxcomm_mlx_join_options_init(&options);
  return options;
}

void NoDaemon(void) {
  mlx_distributed_group world = mlx_distributed_group_new();
  mlxcomm_mlx_join_options options = Options();
  options.job = "elsewhere";
  options.rank = 0;
  options.size = 2;
  options.socket_path = "/nowhere/at/all.sock";
  KeepErrors();
  CheckFailed(mlxcomm_mlx_join(&world, &options), MLXCOMM_UNAVAILABLE, -1, "/nowhere/at/all.sock");
  CHECK(setenv("MLX_RANK", "many", 1) == 0);
  Wrong(mlxcomm_mlx_init(&world, true, NULL), "MLX_RANK");
  Wrong(mlxcomm_mlx_barrier(none, 0), "MLX_RANK");
  CHECK(world.ctx == NULL);
}

void LostAndFound(mlx_distributed_group world) {
  Loop(world);
  Say("lost");
  Await();
  mlx_distributed_group again = mlx_distributed_group_new();
  OK(mlxcomm_mlx_init(&again, true, NULL));
  OK(Sum(again, 7, 0));
  OK(Sum(none, 7, 0));
  CHECK(mlxcomm_mlx_check(world) == 1);
}

// Why: mlx-c uses an exception's text as a printf format, and this text comes from another process.
void Leave(mlx_distributed_group world) {
  KeepErrors();
  OK(Sum(world, 2, 0));
  if (mlx_distributed_group_rank(world) == 1) {
    OK(mlxcomm_mlx_leave(world, "100% of %s and %n %"));
    CheckFailed(Sum(world, 2, 0), MLXCOMM_CANCELLED, -1, "100% of %s and %n %");
    return;
  }
  CheckFailed(Sum(world, 2, 0), MLXCOMM_RANK_LOST, 1, "100% of %s and %n %");
  CheckFailed(mlxcomm_mlx_check(world), MLXCOMM_RANK_LOST, 1, "100% of %s and %n %");
}
