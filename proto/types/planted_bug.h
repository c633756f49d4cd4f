// Bugs on purpose, to show that the simulator's checks would find them. Programs and libraries
// contain none: tests/sim compiles the sources that include this once more, with a definition of
// its own.
#pragma once

#ifndef MLXCOMM_PLANTED_BUG
#define MLXCOMM_PLANTED_BUG(bug) false
#endif
