// A training step in C: each rank has its own batch, and all ranks get the same gradient.
//
//   mlxcommctl launch -n 2 -- ./example
#include <stdio.h>
#include <stdlib.h>

#include "client/mlx_c/mlxcomm_mlx.h"
#include "mlx/c/mlx.h"

static mlx_stream cpu;

// mlx-c calls this with the text of each error. Its default handler prints the text and exits.
static void OnError(const char* text, void* unused) {
  (void)unused;
  mlxcomm_mlx_error error;
  if (mlxcomm_mlx_find_error(&error, text) == 0 && error.code == MLXCOMM_RANK_LOST) {
    fprintf(stderr, "lost rank %d on %s\n", error.rank, error.node);
  }
  fprintf(stderr, "%s\n", text);
  exit(1);
}

// The mean square of weights * batch.
static int Loss(mlx_vector_array* res, const mlx_vector_array inputs) {
  mlx_array weights = mlx_array_new();
  mlx_array batch = mlx_array_new();
  mlx_array value = mlx_array_new();
  const int failed = mlx_vector_array_get(&weights, inputs, 0) ||
                     mlx_vector_array_get(&batch, inputs, 1) ||
                     mlx_multiply(&value, weights, batch, cpu) || mlx_square(&value, value, cpu) ||
                     mlx_mean(&value, value, false, cpu) || mlx_vector_array_set_value(res, value);
  mlx_array_free(value);
  mlx_array_free(batch);
  mlx_array_free(weights);
  return failed;
}

int main(void) {
  mlx_set_error_handler(OnError, NULL, NULL);
  cpu = mlx_default_cpu_stream_new();
  mlx_distributed_group world = mlx_distributed_group_new();
  mlxcomm_mlx_init(&world, false, NULL);
  const int rank = mlx_distributed_group_rank(world);

  const float own[] = {(float)rank + 1, (float)rank + 2};
  const int shape[] = {2};
  const mlx_array inputs[] = {mlx_array_new_data((float[]){1, 1}, shape, 1, MLX_FLOAT32),
                              mlx_array_new_data(own, shape, 1, MLX_FLOAT32)};
  const mlx_vector_array given = mlx_vector_array_new_data(inputs, 2);
  const mlx_closure loss = mlx_closure_new_func(Loss);
  mlx_closure_value_and_grad both = mlx_closure_value_and_grad_new();
  mlx_value_and_grad(&both, loss, (int[]){0}, 1);
  mlx_vector_array values = mlx_vector_array_new();
  mlx_vector_array gradients = mlx_vector_array_new();
  mlx_closure_value_and_grad_apply(&values, &gradients, both, given);

  mlx_array gradient = mlx_array_new();
  mlx_vector_array_get(&gradient, gradients, 0);
  const uint64_t minute = 60000000000;
  mlxcomm_mlx_all_reduce(&gradient, gradient, MLXCOMM_MEAN, world, minute, cpu);
  mlx_array_eval(gradient);
  const float* const data = mlx_array_data_float32(gradient);
  printf("rank %d of %d: gradient %g %g\n", rank, mlx_distributed_group_size(world),
         (double)data[0], (double)data[1]);

  mlx_array_free(gradient);
  mlx_vector_array_free(gradients);
  mlx_vector_array_free(values);
  mlx_closure_value_and_grad_free(both);
  mlx_closure_free(loss);
  mlx_vector_array_free(given);
  mlx_array_free(inputs[0]);
  mlx_array_free(inputs[1]);
  mlx_distributed_group_free(world);
  mlx_stream_free(cpu);
  return 0;
}
