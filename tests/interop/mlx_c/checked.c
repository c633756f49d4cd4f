#include "checked.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

mlx_stream cpu;
mlx_distributed_group none;
mlx_array nothing;
int errors = 0;
char error_text[4096];

void Fail(const char* file, int line, const char* what) {
  Say("%s:%d: not so: %s; the last of %d errors: %s", file, line, what, errors, error_text);
  _Exit(9);
}

void Say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
}

void Await(void) {
  char line[100];
  if (fgets(line, sizeof line, stdin) == NULL) Say("nobody says anything");
}

static void Keep(const char* text, void* data) {
  (void)data;
  ++errors;
  snprintf(error_text, sizeof error_text, "%s", text);
  Say("error %s", text);
}

void KeepErrors(void) { mlx_set_error_handler(Keep, NULL, NULL); }

void CheckFailed(int returned, mlxcomm_code code, int rank, const char* text) {
  CHECK(returned == 1);
  CHECK(strstr(error_text, mlxcomm_code_name(code)) != NULL);
  CHECK(strstr(error_text, text) != NULL);
  mlxcomm_mlx_error error;
  // The text identifies a failure of an evaluation; our own functions keep it for the thread.
  if (mlxcomm_mlx_find_error(&error, error_text) != 0) mlxcomm_mlx_last_error(&error);
  CHECK(error.code == code);
  CHECK(error.rank == rank);
  CHECK(strstr(error.message, text) != NULL);
}

mlx_array Rows(int rows, double first, mlx_dtype type) {
  mlx_array flat = mlx_array_new();
  mlx_array shaped = mlx_array_new();
  mlx_array typed = mlx_array_new();
  const int shape[] = {rows, 2};
  OK(mlx_arange(&flat, first, first + 2 * rows, 1, MLX_FLOAT32, cpu));
  OK(mlx_reshape(&shaped, flat, shape, 2, cpu));
  OK(mlx_astype(&typed, shaped, type, cpu));
  return typed;
}

mlx_array Numbers(const float* values, int count) {
  return mlx_array_new_data(values, &count, 1, MLX_FLOAT32);
}

bool Equal(mlx_array a, mlx_array b) {
  mlx_array equal = mlx_array_new();
  bool value = false;
  OK(mlx_array_equal(&equal, a, b, false, cpu));
  OK(mlx_array_item_bool(&value, equal));
  return value && mlx_array_dtype(a) == mlx_array_dtype(b);
}

bool Holds(mlx_array a, const float* values, int count) {
  OK(mlx_array_eval(a));
  const float* data = mlx_array_data_float32(a);
  if (data == NULL || mlx_array_size(a) != (size_t)count) return false;
  for (int i = 0; i < count; ++i) {
    if (data[i] != values[i]) return false;
  }
  return true;
}

bool HasShape(mlx_array a, int dimensions, const int* shape) {
  if (mlx_array_ndim(a) != (size_t)dimensions) return false;
  return dimensions == 0 ||
         memcmp(mlx_array_shape(a), shape, (size_t)dimensions * sizeof *shape) == 0;
}
