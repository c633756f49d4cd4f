// Declares what libmlxcomm needs of the control service, as a table of functions. The module
// libmlxcomm_attach provides it; it is loaded when a process first connects, so linking or
// importing mlxcomm does not pay for it. Both come from the same build.
//
// Blocking calls check `interrupt` about every 50 ms, and end ten seconds after their deadline if
// the daemon does not enforce it. Failure messages are for users and do not mention the protocol.
//
// Owner: the module, static. Thread: any. Memory: an attachment is made by open and ended by close.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/types/failure.h"

struct mlxcomm_attachment;

// Like mlxcomm_connect_options.interrupted.
struct mlxcomm_interrupt {
  int (*interrupted)(void* context);
  void* context;
};

namespace mlxcomm::client {

struct Member {
  std::string node;
  std::uint64_t pid = 0;
};

struct GroupFacts {
  std::uint64_t id = 0;
  std::uint32_t rank = 0;
  std::uint64_t timeout_default_ns = 0;  // 0 means the same as the world group's.
  std::string name;
  std::vector<Member> members;  // Ordered by rank.
};

// A timeout of 0 is the daemon's default.
struct JoinCall {
  const char* job = "";
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint64_t timeout_ns = 0;
  std::string named_by = {};  // AttachRequest's, as `program`.
  std::string program = {};
};

struct SplitCall {
  std::uint64_t parent = 0;
  std::uint64_t number = 0;
  std::span<const std::uint32_t> ranks;
  std::uint32_t own_index = 0;  // This process's index in `ranks`.
  std::string name;
  std::uint64_t timeout_ns = 0;
};

inline constexpr int kAwaitedCircle = 2;  // Values of awaited()'s `ended`.

// Its number changes with the table.
inline constexpr char kAttachTableSymbol[] = "mlxcomm_attach_table_v6";

}  // namespace mlxcomm::client

struct mlxcomm_attach_table {
  // Takes over the connection; `token` are the hello's bytes.
  mlxcomm_attachment* (*open)(int connection, const std::uint8_t* token, std::size_t token_bytes);
  // Joins a job; blocks. `facts` is filled in on success.
  mlxcomm::Failure (*attach)(mlxcomm_attachment&, const mlxcomm::client::JoinCall& call,
                             mlxcomm_interrupt interrupt, mlxcomm::client::GroupFacts& facts);
  // Makes the group of these ranks of `parent`; the daemon answers at once.
  mlxcomm::Failure (*split)(mlxcomm_attachment&, const mlxcomm::client::SplitCall& call,
                            mlxcomm_interrupt interrupt, mlxcomm::client::GroupFacts& facts);
  // Makes a group of the remaining ranks; blocks.
  mlxcomm::Failure (*shrink)(mlxcomm_attachment&, std::uint64_t group, std::uint64_t timeout_ns,
                             mlxcomm_interrupt interrupt, mlxcomm::client::GroupFacts& facts);
  // Asks the daemon to end an operation, and waits at most patience_ns for its answer. Returns
  // whether it has answered. The operation ends with its completion.
  bool (*cancel)(mlxcomm_attachment&, std::uint64_t group, std::uint64_t ticket,
                 std::uint64_t patience_ns);
  // Writes into `text` which ranks an operation is waiting for (group 0: which job looks like the
  // other half of the one that is forming), cut to fit and ended by a NUL. Sets `ended` to 1 if the
  // operation has ended or its group has failed, or to kAwaitedCircle if the text names ranks that
  // wait for each other. Waits at most patience_ns for the daemon's answer, or
  // until interrupted. Returns whether the daemon has answered, or may still do so.
  bool (*awaited)(mlxcomm_attachment&, std::uint64_t group, std::uint64_t ticket,
                  std::uint64_t patience_ns, mlxcomm_interrupt interrupt, std::span<char> text,
                  int& ended);
  // Leave one group, or all: normally (NULL), or because of the fault `why`. They wait at most a
  // second.
  void (*release)(mlxcomm_attachment&, std::uint64_t group);
  void (*detach)(mlxcomm_attachment&, const char* why);
  void (*close)(mlxcomm_attachment*);
};
