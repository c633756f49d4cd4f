// A program in C with mlx-c: one rank of the scenario that its arguments name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checked.h"
#include "scenarios.h"

static const struct {
  const char* name;
  void (*with_world)(mlx_distributed_group world);
  void (*alone)(void);
} kScenarios[] = {
    {"operations", Operations, NULL},
    {"gradients", Gradients, NULL},
    {"groups", Groups, NULL},
    {"alone", NULL, Alone},
    {"wrong", WrongArguments, NULL},
    {"mismatch", Mismatch, NULL},
    {"late", Late, NULL},
    {"loop", Loop, NULL},
    {"shrink", Shrink, NULL},
    {"no-daemon", NULL, NoDaemon},
    {"lost", LostAndFound, NULL},
    {"leave", Leave, NULL},
    {"queued", LeaveQueued, NULL},
    {"on-request", SumOnRequest, NULL},
    {"fork", Fork, NULL},
    {"ctrl-c", CtrlC, NULL},
    {"ctrl-c-at-end", CtrlCAtEnd, NULL},
    {"outlive", Outlive, NULL},
    {"at-exit", UseAtExit, NULL},
};

int main(int count, char** arguments) {
  cpu = mlx_default_cpu_stream_new();
  const char* const wanted = count > 1 ? arguments[1] : "";
  if (count > 2 && strcmp(wanted, "default") == 0) {
    DefaultHandler(arguments[2]);
    return 0;
  }
  for (size_t i = 0; i < sizeof kScenarios / sizeof *kScenarios; ++i) {
    if (strcmp(wanted, kScenarios[i].name) != 0) continue;
    if (kScenarios[i].alone != NULL) {
      kScenarios[i].alone();
    } else {
      mlx_distributed_group world = mlx_distributed_group_new();
      OK(mlxcomm_mlx_init(&world, true, NULL));
      kScenarios[i].with_world(world);
    }
    Say("all is right");
    return 0;
  }
  fprintf(stderr, "no scenario \"%s\"\n", wanted);
  return 2;
}
