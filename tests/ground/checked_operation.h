// An operation in flight on a real daemon, with buffers of its own. Its input and its expected
// result are derived from the operation (tests/ground/expected_result.h). Large payloads are uint64
// words, whose sums are cheap to check. 64 bytes behind the output must stay untouched.
//
// Owner: a task of the rank. Thread: one. Memory: two buffers of the arena.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "client/lib/mlxcomm.hpp"
#include "tests/ground/expected_result.h"

namespace mlxcomm::ground {

// A result that is wrong.
class WrongValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void Expect(bool fine, const std::string& what) {
  if (!fine) throw WrongValue(what);
}

// Spreads the bits of both over the whole word.
inline std::uint64_t Mixed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9;
  return x ^ (x >> 29);
}

// Word i of a rank's payload. A byte of a different operation, rank or place is noticed.
inline std::uint64_t Word(std::uint64_t salt, std::uint64_t rank, std::uint64_t i) {
  return Mixed(salt, i) + rank * (i + 1);
}

inline std::uint64_t SumOfWords(std::uint64_t salt, std::uint64_t ranks, std::uint64_t i) {
  return ranks * Mixed(salt, i) + ranks * (ranks - 1) / 2 * (i + 1);
}

class CheckedOperation {
 public:
  static constexpr std::uint64_t kSmallBytesMax = 32 << 10;  // More is a large payload.

  CheckedOperation(Connection& connection, Group& group, oracle::Operation operation);

  // Waits for it and compares every byte. Returns the result's bytes.
  std::uint64_t Finish();

 private:
  void Fill(std::uint64_t elements);
  std::int64_t FirstWrong() const;
  Ticket Begin(Group& group) const;
  std::string Described() const;

  oracle::Operation operation_;
  std::uint32_t rank_;
  bool is_large_;
  std::uint64_t bytes_ = 0;
  std::optional<Buffer> in_;
  std::optional<Buffer> out_;
  std::optional<Ticket> ticket_;  // Destroyed before its buffers.
};

// Every rank to every other, with tags in the opposite order at the receiver. Returns the number of
// messages.
std::uint64_t ExchangeMessages(Connection& connection, Group& group, std::uint64_t words,
                               std::uint32_t tags, std::uint64_t salt);

}  // namespace mlxcomm::ground
