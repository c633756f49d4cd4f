// The words of rank.cc that have a file of their own.
//
// Owner: the rank. Thread: the main one. Memory: buffers of the arena.
#pragma once

#include <cstdint>
#include <string>

#include "client/lib/mlxcomm.hpp"

namespace mlxcomm::ground {

// Makes calls of the C++ interface and checks every result: every, messages, groups, cycles,
// shrink, cancel, large, unequal. Returns false if there is no such task.
bool DoEveryCall(const std::string& task, Connection& connection, Group& world);

// Operations of every kind, messages and splits, all drawn from the seed, until some rank sees the
// file. After a loss the remaining ranks continue in a new group.
void DoMixedWork(Connection& connection, Group& world, std::uint64_t seed,
                 const std::string& stop_file);

// Prints an error with the monotonic clock's time and the process that it names.
void PrintRaised(const Error& error, const Group* group);

// Seconds on the monotonic clock.
double Now();

}  // namespace mlxcomm::ground
