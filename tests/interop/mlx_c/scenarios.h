// The program's scenarios: each returns if everything was as expected, and ends the program
// otherwise.
//
// Owner: program.c. Thread: one. Memory: theirs, which is not freed.
#ifndef TESTS_INTEROP_MLX_C_SCENARIOS_H_
#define TESTS_INTEROP_MLX_C_SCENARIOS_H_

#include "mlx/c/mlx.h"

// operations.c; with two ranks.
void Operations(mlx_distributed_group world);
void Gradients(mlx_distributed_group world);
void Groups(mlx_distributed_group world);
void Alone(void);

// failures.c
void WrongArguments(mlx_distributed_group world);  // Two ranks.
void Mismatch(mlx_distributed_group world);        // Two ranks.
void Late(mlx_distributed_group world);            // Two ranks, one of which does not call.
void Loop(mlx_distributed_group world);            // Until an evaluation fails.
void Shrink(mlx_distributed_group world);  // Until one fails; then the remaining ranks continue.
void NoDaemon(void);
void LostAndFound(mlx_distributed_group world);  // Until the daemon is gone, and is back.
void Leave(mlx_distributed_group world);         // Rank 1 leaves, with percent signs.

// ends.c
// Ends with an operation in progress; prints nothing more.
void LeaveQueued(mlx_distributed_group world);
void SumOnRequest(mlx_distributed_group world);  // The other rank of that.
void DefaultHandler(const char* in);             // "call", "evaluation", "thread"; does not return.
void Fork(mlx_distributed_group world);
void Outlive(mlx_distributed_group world);     // The other rank of that.
void CtrlC(mlx_distributed_group world);       // Has a handler of its own, and waits.
void CtrlCAtEnd(mlx_distributed_group world);  // The same, and ends with an operation in progress.
void UseAtExit(mlx_distributed_group world);   // From a handler that runs after the jobs were left.

#endif  // TESTS_INTEROP_MLX_C_SCENARIOS_H_
