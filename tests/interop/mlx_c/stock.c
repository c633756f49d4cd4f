// A program of mlx-c alone: it does not mention mlxcomm. BACKEND is the backend it asks MLX for.
#include <stdio.h>

#include "mlx/c/mlx.h"

int main(void) {
  mlx_distributed_group world = mlx_distributed_group_new();
  if (mlx_distributed_init(&world, true, BACKEND) != 0) return 1;
  mlx_stream cpu = mlx_default_cpu_stream_new();
  mlx_array rank = mlx_array_new_float((float)mlx_distributed_group_rank(world) + 1);
  mlx_array sum = mlx_array_new();
  float value = 0;
  if (mlx_distributed_all_sum(&sum, rank, world, cpu) != 0 ||
      mlx_array_item_float32(&value, sum) != 0)
    return 1;
  printf("%d ranks, sum %g\n", mlx_distributed_group_size(world), (double)value);
  mlx_array_free(sum);
  mlx_array_free(rank);
  mlx_stream_free(cpu);
  mlx_distributed_group_free(world);
  return 0;
}
