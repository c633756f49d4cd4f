// Every operation, of mlx-c and of mlxcomm, with two ranks; gradients; groups.
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "scenarios.h"

static const mlx_dtype kTypes[] = {
    MLX_BOOL,  MLX_UINT8, MLX_UINT16,  MLX_UINT32,  MLX_UINT64,  MLX_INT8,     MLX_INT16,
    MLX_INT32, MLX_INT64, MLX_FLOAT16, MLX_FLOAT32, MLX_FLOAT64, MLX_BFLOAT16, MLX_COMPLEX64};
enum { kTypesNumber = sizeof kTypes / sizeof *kTypes };

// Rank r has r + 1, r + 2, ...; as bool all are true.
static mlx_array Own(int rows, int rank, mlx_dtype type) { return Rows(rows, rank + 1, type); }

static mlx_array Sum(mlx_array a, mlx_array b) {
  mlx_array sum = mlx_array_new();
  mlx_array typed = mlx_array_new();
  OK(mlx_add(&sum, a, b, cpu));
  OK(mlx_astype(&typed, sum, mlx_array_dtype(a), cpu));
  return typed;
}

static mlx_array Half(mlx_array x, int which) {
  const int rows = mlx_array_shape(x)[0] / 2;
  const int start[] = {which * rows, 0};
  const int stop[] = {which * rows + rows, 2};
  const int strides[] = {1, 1};
  mlx_array half = mlx_array_new();
  OK(mlx_slice(&half, x, start, 2, stop, 2, strides, 2, cpu));
  return half;
}

static mlx_array Behind(mlx_array a, mlx_array b) {
  const mlx_array both[] = {a, b};
  const mlx_vector_array vector = mlx_vector_array_new_data(both, 2);
  mlx_array joined = mlx_array_new();
  OK(mlx_concatenate_axis(&joined, vector, 0, cpu));
  return joined;
}

static void OperationsOfMlx(mlx_distributed_group world, int rank, mlx_dtype type) {
  const mlx_array a = Own(4, 0, type), b = Own(4, 1, type), own = rank == 0 ? a : b;
  mlx_array res = mlx_array_new();  // Replaced by each.
  OK(mlx_distributed_all_sum(&res, own, world, cpu));
  CHECK(Equal(res, Sum(a, b)));
  OK(mlx_distributed_all_max(&res, own, world, cpu));
  CHECK(Equal(res, b));
  OK(mlx_distributed_all_min(&res, own, world, cpu));
  CHECK(Equal(res, a));
  OK(mlx_distributed_all_gather(&res, own, world, cpu));
  CHECK(Equal(res, Behind(a, b)));
  OK(mlx_distributed_sum_scatter(&res, own, world, cpu));
  CHECK(Equal(res, Half(Sum(a, b), rank)));
  if (rank == 0) {
    OK(mlx_distributed_send(&res, a, 1, world, cpu));
    CHECK(Equal(res, a));
    const int shape[] = {4, 2};
    OK(mlx_distributed_recv(&res, shape, 2, type, 1, world, cpu));
    CHECK(Equal(res, b));
  } else {
    OK(mlx_distributed_recv_like(&res, b, 0, world, cpu));
    CHECK(Equal(res, a));
    OK(mlx_distributed_send(&res, b, 0, world, cpu));
    OK(mlx_array_eval(res));
  }
}

static void OperationsOfOurs(mlx_distributed_group g, int rank, mlx_dtype type) {
  const mlx_array a = Own(4, 0, type), b = Own(4, 1, type), own = rank == 0 ? a : b;
  mlx_array res = mlx_array_new();
  OK(mlxcomm_mlx_all_reduce(&res, own, MLXCOMM_SUM, g, 0, cpu));
  CHECK(Equal(res, Sum(a, b)));
  OK(mlxcomm_mlx_all_reduce(&res, own, MLXCOMM_MAX, g, 0, cpu));
  CHECK(Equal(res, b));
  const mlx_array many[] = {own, own, Own(2, rank, type)};
  mlx_vector_array sums = mlx_vector_array_new();
  OK(mlxcomm_mlx_all_reduce_many(&sums, mlx_vector_array_new_data(many, 3), MLXCOMM_SUM, 0, g, 0,
                                 cpu));
  CHECK(mlx_vector_array_size(sums) == 3);
  mlx_array one_of_them = mlx_array_new();
  for (size_t i = 0; i < 2; ++i) {
    OK(mlx_vector_array_get(&one_of_them, sums, i));
    CHECK(Equal(one_of_them, Sum(a, b)));
  }
  OK(mlx_vector_array_get(&one_of_them, sums, 2));
  CHECK(Equal(one_of_them, Sum(Own(2, 0, type), Own(2, 1, type))));
  OK(mlxcomm_mlx_reduce(&res, own, 1, MLXCOMM_MIN, g, 0, cpu));
  mlx_array zeros = mlx_array_new();
  OK(mlx_zeros_like(&zeros, a, cpu));
  CHECK(Equal(res, rank == 1 ? a : zeros));
  OK(mlxcomm_mlx_reduce_scatter(&res, own, MLXCOMM_SUM, g, 0, cpu));
  CHECK(Equal(res, Half(Sum(a, b), rank)));
  OK(mlxcomm_mlx_broadcast(&res, own, 1, g, 0, cpu));
  CHECK(Equal(res, b));
  OK(mlxcomm_mlx_all_gather(&res, own, g, 0, cpu));
  CHECK(Equal(res, Behind(a, b)));
  OK(mlxcomm_mlx_gather(&res, own, 0, g, 0, cpu));
  const int no_rows[] = {0, 2};
  CHECK(rank == 0 ? Equal(res, Behind(a, b)) : HasShape(res, 2, no_rows));
  OK(mlx_array_eval(res));
  OK(mlxcomm_mlx_scatter(&res, own, 1, g, 0, cpu));
  CHECK(Equal(res, Half(b, rank)));
  OK(mlxcomm_mlx_all_to_all(&res, own, g, 0, cpu));
  CHECK(Equal(res, Behind(Half(a, rank), Half(b, rank))));
}

// The operations with a different number of rows on each rank: 1 and 3.
static void UnequalRows(mlx_distributed_group g, int rank, mlx_dtype type) {
  const mlx_array a = Own(1, 0, type), b = Own(3, 1, type), own = rank == 0 ? a : b;
  const uint64_t counts[] = {1, 3};
  mlx_array res = mlx_array_new();
  OK(mlxcomm_mlx_all_gather_v(&res, own, counts, 2, g, 0, cpu));
  CHECK(Equal(res, Behind(a, b)));
  OK(mlxcomm_mlx_all_gather_v(&res, own, NULL, 0, g, 0, cpu));
  CHECK(Equal(res, Behind(a, b)));
  // Rank 0 has two rows for itself and one for rank 1, which has three for rank 0 and none for
  // itself.
  const mlx_array first = Own(3, 0, type), second = Own(3, 5, type);
  const uint64_t sent[2][2] = {{2, 1}, {3, 0}}, received[2][2] = {{2, 3}, {1, 0}};
  const int strides[] = {1, 1}, of_own[2][2] = {{0, 0}, {2, 0}}, until[2][2] = {{2, 2}, {3, 2}};
  mlx_array part = mlx_array_new();
  OK(mlx_slice(&part, first, of_own[rank], 2, until[rank], 2, strides, 2, cpu));
  const mlx_array expected = rank == 0 ? Behind(part, second) : part;
  const mlx_array given = rank == 0 ? first : second;
  OK(mlxcomm_mlx_all_to_all_v(&res, given, sent[rank], received[rank], 2, g, 0, cpu));
  CHECK(Equal(res, expected));
  OK(mlxcomm_mlx_all_to_all_v(&res, given, sent[rank], NULL, 2, g, 0, cpu));
  CHECK(Equal(res, expected));
}

// Tags distinguish two messages, in whichever order they are received.
static void Messages(mlx_distributed_group g, int rank, mlx_dtype type) {
  const mlx_array a = Own(2, 3, type), b = Own(2, 7, type);
  mlx_array res = mlx_array_new(), other = mlx_array_new();
  const int shape[] = {2, 2};
  const mlx_stream second = mlx_stream_new_device(mlx_device_new_type(MLX_CPU, 0));
  if (rank == 0) {
    OK(mlxcomm_mlx_send(&res, a, 1, 1, g, 0, cpu));
    OK(mlxcomm_mlx_send(&other, b, 1, 2, g, 0, second));
  } else {
    OK(mlxcomm_mlx_recv(&res, shape, 2, type, 0, 2, nothing, g, 0, second));
    OK(mlxcomm_mlx_recv_like(&other, b, 0, 1, g, 0, cpu));
  }
  const mlx_array both[] = {res, other};
  OK(mlx_eval(mlx_vector_array_new_data(both, 2)));
  CHECK(Equal(res, rank == 0 ? a : b));
  CHECK(Equal(other, rank == 0 ? b : a));
}

static void AllOperators(mlx_distributed_group g, int rank) {
  const float own = rank == 0 ? 6 : 3;
  const struct {
    mlxcomm_operator op;
    float result;
  } real[] = {{MLXCOMM_SUM, 9},
              {MLXCOMM_PROD, 18},
              {MLXCOMM_MIN, 3},
              {MLXCOMM_MAX, 6},
              {MLXCOMM_MEAN, 4.5F}},
    whole[] = {{MLXCOMM_AND, 2}, {MLXCOMM_OR, 7}};
  mlx_array res = mlx_array_new(), as_int = mlx_array_new(), as_float = mlx_array_new();
  const mlx_array x = Numbers(&own, 1);
  for (size_t i = 0; i < sizeof real / sizeof *real; ++i) {
    OK(mlxcomm_mlx_all_reduce(&res, x, real[i].op, g, 0, cpu));
    CHECK(Holds(res, &real[i].result, 1));
  }
  OK(mlx_astype(&as_int, x, MLX_INT32, cpu));
  for (size_t i = 0; i < sizeof whole / sizeof *whole; ++i) {
    OK(mlxcomm_mlx_all_reduce(&res, as_int, whole[i].op, g, 0, cpu));
    OK(mlx_astype(&as_float, res, MLX_FLOAT32, cpu));
    CHECK(Holds(as_float, &whole[i].result, 1));
  }
}

void Operations(mlx_distributed_group world) {
  const int rank = mlx_distributed_group_rank(world);
  CHECK(mlx_distributed_group_size(world) == 2);
  mlxcomm_mlx_counts before, after;
  mlxcomm_mlx_get_counts(&before);
  for (int i = 0; i < kTypesNumber; ++i) {
    OperationsOfMlx(world, rank, kTypes[i]);
    OperationsOfOurs(world, rank, kTypes[i]);
    UnequalRows(none, rank, kTypes[i]);
    Messages(none, rank, kTypes[i]);
  }
  AllOperators(world, rank);
  mlx_stream empty = mlx_stream_new();
  mlx_array res = mlx_array_new();
  const float one = 1, two = 2;
  OK(mlxcomm_mlx_all_reduce(&res, Numbers(&one, 1), MLXCOMM_SUM, none, 0, empty));
  CHECK(Holds(res, &two, 1));
  OK(mlxcomm_mlx_barrier(none, 0));
  mlxcomm_mlx_get_counts(&after);
  // For each type: 7 of mlx-c's, 10, 6 (two exchange counts first) and 2 of ours; 7 operators; one
  // without a stream.
  CHECK(after.operations - before.operations == kTypesNumber * (7 + 10 + 6 + 2) + 7 + 1);
}

static mlx_distributed_group differentiated;

// The sum of all elements of all_sum(x) * x, and of 3 * block r of the sum over ranks of y.
static int Loss(mlx_vector_array* res, const mlx_vector_array inputs) {
  mlx_array x = mlx_array_new(), y = mlx_array_new(), three = mlx_array_new_float(3);
  mlx_array first = mlx_array_new(), second = mlx_array_new(), loss = mlx_array_new();
  if (mlx_vector_array_get(&x, inputs, 0) || mlx_vector_array_get(&y, inputs, 1) ||
      mlx_distributed_all_sum(&first, x, differentiated, cpu) ||
      mlx_multiply(&first, first, x, cpu) || mlx_sum(&first, first, false, cpu) ||
      mlxcomm_mlx_reduce_scatter(&second, y, MLXCOMM_SUM, differentiated, 0, cpu) ||
      mlx_multiply(&second, second, three, cpu) || mlx_sum(&second, second, false, cpu) ||
      mlx_add(&loss, first, second, cpu)) {
    return 1;
  }
  const mlx_vector_array value = mlx_vector_array_new_value(loss);
  return mlx_vector_array_set(res, value);
}

void Gradients(mlx_distributed_group world) {
  differentiated = world;
  const int rank = mlx_distributed_group_rank(world);
  const float own[] = {rank + 1.0F, rank + 2.0F}, more[] = {10, 20};
  const mlx_array inputs[] = {Numbers(own, 2), Numbers(more, 2)};
  const mlx_closure loss = mlx_closure_new_func(Loss);
  mlx_closure_value_and_grad both = mlx_closure_value_and_grad_new();
  const int arguments[] = {0, 1};
  OK(mlx_value_and_grad(&both, loss, arguments, 2));
  mlx_vector_array values = mlx_vector_array_new(), gradients = mlx_vector_array_new();
  OK(mlx_closure_value_and_grad_apply(&values, &gradients, both,
                                      mlx_vector_array_new_data(inputs, 2)));
  mlx_array value = mlx_array_new(), of_x = mlx_array_new(), of_y = mlx_array_new();
  OK(mlx_vector_array_get(&value, values, 0));
  OK(mlx_vector_array_get(&of_x, gradients, 0));
  OK(mlx_vector_array_get(&of_y, gradients, 1));
  // The sums are 3 and 5. d/dx of all_sum(x) * x is, by MLX's convention, all_sum(x) + x.
  const float expected = 3 * own[0] + 5 * own[1] + 3 * (rank == 0 ? 20.0F : 40.0F);
  const float expected_x[] = {3 + own[0], 5 + own[1]}, expected_y[] = {3, 3};
  CHECK(Holds(value, &expected, 1));
  CHECK(Holds(of_x, expected_x, 2));
  CHECK(Holds(of_y, expected_y, 2));
}

static void CheckName(mlx_distributed_group group, const char* expected) {
  mlx_string name = mlx_string_new();
  OK(mlxcomm_mlx_name(&name, group));
  CHECK(strcmp(mlx_string_data(name), expected) == 0);
  OK(mlx_string_free(name));
}

static float SumOfOnes(mlx_distributed_group group) {
  const float one = 1;
  float sum = 0;
  mlx_array res = mlx_array_new();
  OK(mlx_distributed_all_sum(&res, Numbers(&one, 1), group, cpu));
  OK(mlx_array_item_float32(&sum, res));
  return sum;
}

void Groups(mlx_distributed_group world) {
  const int rank = mlx_distributed_group_rank(world);
  CHECK(mlxcomm_mlx_is_ours(world) && !mlxcomm_mlx_is_ours(none));
  mlx_distributed_group again = mlx_distributed_group_new(), joined = mlx_distributed_group_new();
  OK(mlxcomm_mlx_init(&again, true, "ring"));
  OK(mlxcomm_mlx_init(&again, true, "mpi"));  // Replaces the old value.
  mlxcomm_mlx_join_options options;
  mlxcomm_mlx_join_options_init(&options);
  options.arena_bytes = 1 << 20;  // The job is joined already: no effect.
  OK(mlxcomm_mlx_join(&joined, &options));
  CHECK(SumOfOnes(again) == 2 && SumOfOnes(joined) == 2);
  mlx_string name = mlx_string_new();
  OK(mlxcomm_mlx_name(&name, world));
  char of_part[300];
  CHECK(strlen(mlx_string_data(name)) < 200);
  strcpy(of_part, mlx_string_data(name));

  mlx_distributed_group part = mlx_distributed_group_new(), rest = mlx_distributed_group_new();
  OK(mlxcomm_mlx_split(&part, world, 7, -rank - 1, "turned", 0));  // A negative key: the old rank.
  CHECK(mlx_distributed_group_rank(part) == rank);
  OK(mlxcomm_mlx_split(&part, world, 7, 1 - rank, "turned", 0));
  CHECK(mlx_distributed_group_rank(part) == 1 - rank);
  strcat(of_part, "/turned");
  CheckName(part, of_part);
  OK(mlxcomm_mlx_split(&rest, part, rank == 0 ? 0 : MLXCOMM_NO_GROUP, -1, NULL, 0));
  CHECK((rest.ctx == NULL) == (rank == 1));
  if (rank == 0) CHECK(SumOfOnes(rest) == 1);
  mlx_distributed_group of_mlx = mlx_distributed_group_new();
  OK(mlx_distributed_group_split(&of_mlx, part, 0, -1));
  CHECK(SumOfOnes(of_mlx) == 2);
  OK(mlxcomm_mlx_set_timeout(part, 60000000000));
  OK(mlxcomm_mlx_check(part));

  // Freed in any order: the whole before its parts, and an empty one repeatedly.
  OK(mlx_distributed_group_free(world));
  OK(mlx_distributed_group_free(again));
  OK(mlx_distributed_group_free(joined));
  OK(mlx_distributed_group_free(none));
  OK(mlx_distributed_group_free(none));
  CHECK(SumOfOnes(part) == 2);
  OK(mlx_distributed_group_free(part));
  CHECK(SumOfOnes(of_mlx) == 2);
  // Operations keep their group until they have been carried out.
  const float one = 1, two = 2;
  mlx_array late = mlx_array_new();
  OK(mlx_distributed_all_sum(&late, Numbers(&one, 1), of_mlx, cpu));
  OK(mlx_distributed_group_free(of_mlx));
  OK(mlx_distributed_group_free(rest));
  CHECK(Holds(late, &two, 1));
  // The process is still in its job.
  mlx_distributed_group still = mlx_distributed_group_new();
  OK(mlxcomm_mlx_init(&still, true, NULL));
  CHECK(SumOfOnes(still) == 2);
  OK(mlxcomm_mlx_barrier(none, 0));
}

// Without a launcher: results are the input, and no daemon is used.
void Alone(void) {
  mlx_distributed_group world = mlx_distributed_group_new(), part = mlx_distributed_group_new();
  OK(mlxcomm_mlx_init(&world, false, "any"));
  CHECK(mlx_distributed_group_size(world) == 1 && mlx_distributed_group_rank(world) == 0);
  CHECK(!mlxcomm_mlx_is_ours(world) && SumOfOnes(world) == 1);
  CheckName(world, "alone");
  const float two[] = {1, 2};
  mlx_array res = mlx_array_new();
  OK(mlxcomm_mlx_all_to_all_v(&res, Numbers(two, 2), (const uint64_t[]){2}, NULL, 1, none, 0, cpu));
  CHECK(Holds(res, two, 2));
  OK(mlxcomm_mlx_all_gather_v(&res, Numbers(two, 2), NULL, 0, world, 0, cpu));
  CHECK(Holds(res, two, 2));
  OK(mlxcomm_mlx_barrier(world, 0));
  OK(mlxcomm_mlx_check(world));
  OK(mlxcomm_mlx_split(&part, world, 3, 0, NULL, 0));
  CHECK(mlx_distributed_group_size(part) == 1);
  OK(mlxcomm_mlx_split(&part, world, MLXCOMM_NO_GROUP, 0, NULL, 0));
  CHECK(part.ctx == NULL);
  KeepErrors();
  CheckFailed(mlxcomm_mlx_shrink(&part, world, 0), MLXCOMM_INVALID_ARGUMENT, -1,
              "more than one rank, got one");
  CheckFailed(mlxcomm_mlx_send(&res, res, 0, 0, world, 0, cpu), MLXCOMM_INVALID_ARGUMENT, -1,
              "destination: expected another rank (a group of one has none), got 0");
  CheckFailed(mlxcomm_mlx_init(&world, true, NULL), MLXCOMM_UNAVAILABLE, -1, "no launcher has set");
  CheckFailed(mlxcomm_mlx_init(&world, false, "gloo"), MLXCOMM_INVALID_ARGUMENT, -1,
              "backend \"gloo\": expected any, ring");
  CHECK(mlx_distributed_group_size(world) == 1);  // Unchanged.
  CHECK(mlxcomm_mlx_is_available("jaccl") && mlxcomm_mlx_is_available(NULL) &&
        !mlxcomm_mlx_is_available("gloo"));
}
