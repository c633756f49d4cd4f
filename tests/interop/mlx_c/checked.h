// Shared by the scenarios: arrays of small numbers, checks that end the program, and an error
// handler that keeps the error.
//
// Owner: the program owns the arrays, and ends soon. Thread: one. Memory: nothing is freed except
// where freeing is tested.
#ifndef TESTS_INTEROP_MLX_C_CHECKED_H_
#define TESTS_INTEROP_MLX_C_CHECKED_H_

#include <stdbool.h>

#include "client/mlx_c/mlxcomm_mlx.h"
#include "mlx/c/mlx.h"

#define CHECK(condition)                                    \
  do {                                                      \
    if (!(condition)) Fail(__FILE__, __LINE__, #condition); \
  } while (0)
#define OK(call) CHECK((call) == 0)

_Noreturn void Fail(const char* file, int line, const char* what);
void Say(const char* format, ...);
// Waits for a line of standard input.
void Await(void);

extern mlx_stream cpu;
extern mlx_distributed_group none;  // Empty: the default group.
extern mlx_array nothing;           // Empty.

// From here on errors are kept, and printed to standard output.
void KeepErrors(void);
extern int errors;             // So far.
extern char error_text[4096];  // The last.
// Checks that the last call has failed as stated: text, code and rank.
void CheckFailed(int returned, mlxcomm_code code, int rank, const char* text);

// `rows` rows of two numbers: first, first + 1, ...
mlx_array Rows(int rows, double first, mlx_dtype type);
mlx_array Numbers(const float* values, int count);
bool Equal(mlx_array a, mlx_array b);
bool Holds(mlx_array a, const float* values, int count);
bool HasShape(mlx_array a, int dimensions, const int* shape);

#endif  // TESTS_INTEROP_MLX_C_CHECKED_H_
