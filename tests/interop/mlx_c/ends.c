// The ends of a program: with unfinished work, with an error, by a signal, in a child.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checked.h"
#include "scenarios.h"

static int Begin(mlx_distributed_group group, float value) {
  mlx_array res = mlx_array_new();
  OK(mlx_distributed_all_sum(&res, Numbers(&value, 1), group, cpu));
  return mlx_async_eval(mlx_vector_array_new_value(res));
}

static int Sum(mlx_distributed_group group, float value, float expected) {
  mlx_array res = mlx_array_new();
  OK(mlx_distributed_all_sum(&res, Numbers(&value, 1), group, cpu));
  const int failed = mlx_array_eval(res);
  if (failed == 0) CHECK(Holds(res, &expected, 1));
  return failed;
}

void LeaveQueued(mlx_distributed_group world) {
  OK(Begin(world, 5));
  Say("leaves");
}

void SumOnRequest(mlx_distributed_group world) {
  Say("waits");
  Await();
  KeepErrors();
  OK(Sum(world, 7, 12));
  Say("got it");
  // The other rank has left in an orderly way: a rank that still needs it gets the error.
  CHECK(Sum(world, 7, 0) == 1 && strstr(error_text, "RANK_LOST") != NULL);
}

void Outlive(mlx_distributed_group world) {
  KeepErrors();
  OK(Sum(world, 1, 2));
  Say("waits");
  Await();
  mlx_array res = mlx_array_new();
  const float two[] = {1, 2};
  OK(mlx_distributed_all_sum(&res, Numbers(two, 2), world, cpu));
  CHECK(mlx_array_eval(res) == 1);
}

static mlx_distributed_group shared;

static void* Wrong(void* unused) {
  (void)unused;
  mlx_array res = mlx_array_new();
  const float one = 1;
  mlxcomm_mlx_broadcast(&res, Numbers(&one, 1), 77, shared, 0, mlx_stream_new());
  return NULL;
}

void DefaultHandler(const char* in) {
  OK(mlxcomm_mlx_init(&shared, true, NULL));
  OK(Sum(shared, 1, 2));
  if (strcmp(in, "thread") == 0) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, Wrong, NULL) == 0);
    mlxcomm_mlx_barrier(shared, 0);  // The other rank does not join the call.
    pthread_join(thread, NULL);
  }
  if (strcmp(in, "call") == 0) {
    OK(Begin(shared, 1));  // No rank waits for it: this end is not orderly.
    Wrong(NULL);
  }
  Sum(shared, 1, 2);
  Say("went on");
}

void Fork(mlx_distributed_group world) {
  OK(Begin(world, 5));
  const pid_t child = fork();
  if (child == 0) {
    KeepErrors();
    mlx_distributed_group again = mlx_distributed_group_new();
    CheckFailed(mlxcomm_mlx_init(&again, true, NULL), MLXCOMM_INVALID_ARGUMENT, -1, "exec");
    CHECK(mlxcomm_mlx_barrier(world, 0) == 1);
    exit(5);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  OK(Sum(world, 5, 10));
}

static volatile sig_atomic_t heard = 0;

static void Hear(int number) {
  (void)number;
  heard = heard + 1;
  (void)!write(1, "heard\n", 6);
}

static void HearCtrlC(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = Hear;
  CHECK(sigaction(SIGINT, &action, NULL) == 0);
}

void CtrlC(mlx_distributed_group world) {
  HearCtrlC();
  KeepErrors();
  CheckFailed(Sum(world, 1, 2), MLXCOMM_CANCELLED, -1, "interrupted while waiting");
  CHECK(heard == 2);
  Say("interrupted");
}

void CtrlCAtEnd(mlx_distributed_group world) {
  HearCtrlC();
  OK(Begin(world, 5));
}

static mlx_distributed_group used_late;

static void UseLate(void) {
  if (used_late.ctx == NULL) return;
  KeepErrors();
  CHECK(mlx_distributed_group_size(used_late) == 2 && mlx_distributed_group_rank(used_late) <= 1);
  CheckFailed(Sum(used_late, 1, 2), MLXCOMM_CANCELLED, -1, "this process is exiting");
  CheckFailed(mlxcomm_mlx_barrier(used_late, 0), MLXCOMM_CANCELLED, -1, "this process is exiting");
  CheckFailed(mlxcomm_mlx_check(used_late), MLXCOMM_CANCELLED, -1, "this process is exiting");
  OK(mlx_distributed_group_free(used_late));
  Say("refused");
}

void UseAtExit(mlx_distributed_group world) { used_late = world; }

// Handlers run in reverse order: this one is set before the library's.
__attribute__((constructor)) static void SetLateUse(void) { atexit(UseLate); }
