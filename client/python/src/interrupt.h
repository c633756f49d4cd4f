// Ctrl-C while MLX evaluates: Python's own handler only sets a flag that nobody looks
// at before the evaluation ends, so a handler in front of it remembers the signal for
// the waiting operation, and hands it on.
//
// Owner: the process. Thread: any. Memory: one flag, and the handler that was there.
#pragma once

namespace mlxcomm::python {

// Puts the handler in front of the present one, unless it is there. To be called before each
// operation: a program that sets a handler of its own replaces ours.
void WatchInterrupts();
// For mlxcomm_connect_options.interrupted: 1 after a Ctrl-C since the last Forget.
int WasInterrupted(void* unused);
void ForgetInterrupt();

}  // namespace mlxcomm::python
