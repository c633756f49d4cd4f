// mlxcomm.hpp: mlxcomm.h for C++20. Header-only; errors are exceptions.
//
//   group.AllReduce(in, out, count, MLXCOMM_FLOAT32);              // Blocks.
//   Ticket ticket = group.AllReduceAsync(in, out, count, ...);     // Begins.
//   ... work that leaves both buffers alone ...
//   ticket.Wait();
//
// Owner: Connection, Group, Buffer and Ticket own their C handles and move, never
// copy. Destroy Tickets before their Group, and Groups and Buffers before their Connection. Thread:
// as in mlxcomm.h; only one thread may use a Ticket. Memory: none of its own; Buffers are ranges of
// the arena, and belong to an operation until its Ticket has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "client/lib/mlxcomm.h"

namespace mlxcomm {

// What went wrong: code() for programs, what() for people, rank() the rank at fault
// or -1.
class Error : public std::runtime_error {
 public:
  explicit Error(const mlxcomm_error& error)
      : std::runtime_error(std::string(mlxcomm_code_name(error.code)) + ": " + error.message),
        code_(error.code),
        rank_(error.rank) {}
  mlxcomm_code code() const noexcept { return code_; }
  int rank() const noexcept { return rank_; }

 private:
  mlxcomm_code code_;
  int rank_;
};

inline void Check(mlxcomm_code code, const mlxcomm_error& error) {
  if (code != MLXCOMM_OK) throw Error(error);
}

// Deletes a C handle by its function.
template <auto kClose>
struct Closes {
  template <typename Handle>
  void operator()(Handle* handle) const {
    kClose(handle);
  }
};

class Connection {
 public:
  explicit Connection(const mlxcomm_connect_options& options) {
    mlxcomm_error error;
    mlxcomm_connection* handle = nullptr;
    Check(mlxcomm_connect(&options, &handle, &error), error);
    handle_.reset(handle);
  }
  mlxcomm_connection* get() const { return handle_.get(); }

 private:
  std::unique_ptr<mlxcomm_connection, Closes<mlxcomm_disconnect>> handle_;
};

// `bytes` of the arena, page-aligned.
class Buffer {
 public:
  Buffer(Connection& connection, std::uint64_t bytes) {
    mlxcomm_error error;
    void* data = nullptr;
    Check(mlxcomm_buffer_allocate(connection.get(), bytes, &data, &error), error);
    data_ = {data, Frees{connection.get()}};
  }
  void* data() const { return data_.get(); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data());
  }

 private:
  struct Frees {
    mlxcomm_connection* connection;
    void operator()(void* data) const { mlxcomm_buffer_free(connection, data); }
  };
  std::unique_ptr<void, Frees> data_;
};

// One operation that was begun. Until it has ended, its buffers belong to it: neither read nor
// write them. If nothing has waited for a Ticket, its destructor waits (until the operation's
// deadline; 12 s more if the daemon does not answer), which is safe because the buffers may go
// next. It drops the result: the next call on the group reports a failure. A program that cannot
// wait cancels.
class Ticket {
 public:
  Ticket(Ticket&& other) noexcept
      : group_(std::exchange(other.group_, nullptr)), number_(other.number_) {}
  Ticket& operator=(Ticket&& other) noexcept {
    std::swap(group_, other.group_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Ticket() {
    if (group_ != nullptr) mlxcomm_wait(group_, number_, nullptr);
  }
  // Throws if the operation failed; does nothing the second time.
  void Wait() {
    if (group_ == nullptr) return;
    mlxcomm_error error;
    Check(mlxcomm_wait(std::exchange(group_, nullptr), number_, &error), error);
  }
  // Does not wait; true once it has ended. Throws as Wait.
  bool Test() {
    if (group_ == nullptr) return true;
    mlxcomm_error error;
    int done = 0;
    const mlxcomm_code code = mlxcomm_test(group_, number_, &done, &error);
    if (done != 0) group_ = nullptr;
    Check(code, error);
    return done != 0;
  }
  // Gives the operation up, which fails the group on all ranks, and waits until nothing touches its
  // buffers. True if it was given up, false if it had already succeeded. Throws any other failure;
  // after DEADLINE_EXCEEDED you must still wait for the ticket.
  bool Cancel(std::uint64_t timeout_ns = 0) {
    if (group_ == nullptr) return false;
    mlxcomm_error error;
    const mlxcomm_code code = mlxcomm_cancel(group_, number_, timeout_ns, &error);
    if (code != MLXCOMM_DEADLINE_EXCEEDED) group_ = nullptr;
    if (code == MLXCOMM_CANCELLED) return true;
    Check(code, error);
    return false;
  }

 private:
  friend class Group;
  Ticket(mlxcomm_group* group, std::uint64_t number) : group_(group), number_(number) {}

  mlxcomm_group* group_;  // NULL once used up.
  std::uint64_t number_;
};

// Finds this process's rank, size and job from the variables that its launcher has set.
inline mlxcomm_place FindPlace() {
  mlxcomm_place place;
  mlxcomm_error error;
  Check(mlxcomm_find_place(nullptr, &place, &error), error);
  return place;
}

class Group {
 public:
  Group(Connection& connection, const mlxcomm_place& place, std::uint64_t timeout_ns = 0)
      : Group(connection, place.job, place.rank, place.size, timeout_ns) {}
  // Joins a job.
  Group(Connection& connection, const std::string& job, std::uint32_t rank, std::uint32_t size,
        std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    mlxcomm_group* handle = nullptr;
    Check(mlxcomm_join(connection.get(), job.c_str(), rank, size, timeout_ns, &handle, &error),
          error);
    handle_.reset(handle);
  }

  mlxcomm_group* get() const { return handle_.get(); }
  std::uint32_t rank() const { return mlxcomm_rank(get()); }
  std::uint32_t size() const { return mlxcomm_size(get()); }
  std::string name() const { return mlxcomm_group_name(get()); }
  struct Member {
    std::string node;
    std::uint64_t pid = 0;
  };
  Member member(std::uint32_t rank) const {
    const char* const node = mlxcomm_member_node(get(), rank);
    return {node == nullptr ? "" : node, mlxcomm_member_pid(get(), rank)};
  }
  // Throws the latched failure, if there is one.
  void CheckWorks() const {
    mlxcomm_error error;
    Check(mlxcomm_group_failure(get(), &error), error);
  }
  void SetTimeout(std::uint64_t timeout_ns) { mlxcomm_group_set_timeout(get(), timeout_ns); }
  void SetPlan(mlxcomm_plan plan) {
    mlxcomm_error error;
    Check(mlxcomm_group_set_plan(get(), plan, &error), error);
  }

  // nullopt for a rank whose color is MLXCOMM_NO_GROUP. An empty name means the color.
  std::optional<Group> Split(std::int32_t color, std::int32_t key = 0, const std::string& name = {},
                             std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    mlxcomm_group* part = nullptr;
    Check(mlxcomm_split(get(), color, key, name.empty() ? nullptr : name.c_str(), timeout_ns, &part,
                        &error),
          error);
    return part == nullptr ? std::nullopt : std::optional<Group>(Group(part));
  }
  Group Shrink(std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    mlxcomm_group* rest = nullptr;
    Check(mlxcomm_shrink(get(), timeout_ns, &rest, &error), error);
    return Group(rest);
  }

  // The operations; for shapes, and what may be in place, see mlxcomm.h.
  Ticket AllReduceAsync(const void* input, void* output, std::uint64_t count,
                        mlxcomm_data_type type, mlxcomm_operator op = MLXCOMM_SUM,
                        std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_all_reduce, input, output, count, type, op, timeout_ns);
  }
  void AllReduce(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                 mlxcomm_operator op = MLXCOMM_SUM, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_all_reduce, input, output, count, type, op, timeout_ns);
  }
  Ticket ReduceAsync(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                     std::uint32_t root, mlxcomm_operator op = MLXCOMM_SUM,
                     std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_reduce, input, output, count, type, op, root, timeout_ns);
  }
  void Reduce(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
              std::uint32_t root, mlxcomm_operator op = MLXCOMM_SUM, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_reduce, input, output, count, type, op, root, timeout_ns);
  }
  Ticket ReduceScatterAsync(const void* input, void* output, std::uint64_t count,
                            mlxcomm_data_type type, mlxcomm_operator op = MLXCOMM_SUM,
                            std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_reduce_scatter, input, output, count, type, op, timeout_ns);
  }
  void ReduceScatter(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                     mlxcomm_operator op = MLXCOMM_SUM, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_reduce_scatter, input, output, count, type, op, timeout_ns);
  }
  Ticket BroadcastAsync(const void* input, void* output, std::uint64_t count,
                        mlxcomm_data_type type, std::uint32_t root, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_broadcast, input, output, count, type, root, timeout_ns);
  }
  void Broadcast(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                 std::uint32_t root, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_broadcast, input, output, count, type, root, timeout_ns);
  }
  Ticket AllGatherAsync(const void* input, void* output, std::uint64_t count,
                        mlxcomm_data_type type, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_all_gather, input, output, count, type, timeout_ns);
  }
  void AllGather(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                 std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_all_gather, input, output, count, type, timeout_ns);
  }
  Ticket AllGatherVAsync(const void* input, void* output, const std::uint64_t* counts,
                         mlxcomm_data_type type, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_all_gather_v, input, output, counts, type, timeout_ns);
  }
  void AllGatherV(const void* input, void* output, const std::uint64_t* counts,
                  mlxcomm_data_type type, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_all_gather_v, input, output, counts, type, timeout_ns);
  }
  Ticket GatherAsync(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                     std::uint32_t root, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_gather, input, output, count, type, root, timeout_ns);
  }
  void Gather(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
              std::uint32_t root, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_gather, input, output, count, type, root, timeout_ns);
  }
  Ticket ScatterAsync(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                      std::uint32_t root, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_scatter, input, output, count, type, root, timeout_ns);
  }
  void Scatter(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
               std::uint32_t root, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_scatter, input, output, count, type, root, timeout_ns);
  }
  Ticket AllToAllAsync(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                       std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_all_to_all, input, output, count, type, timeout_ns);
  }
  void AllToAll(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_all_to_all, input, output, count, type, timeout_ns);
  }
  Ticket AllToAllVAsync(const void* input, void* output, const std::uint64_t* send_counts,
                        const std::uint64_t* receive_counts, mlxcomm_data_type type,
                        std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_all_to_all_v, input, output, send_counts, receive_counts, type,
                 timeout_ns);
  }
  void AllToAllV(const void* input, void* output, const std::uint64_t* send_counts,
                 const std::uint64_t* receive_counts, mlxcomm_data_type type,
                 std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_all_to_all_v, input, output, send_counts, receive_counts, type, timeout_ns);
  }
  Ticket SendAsync(const void* input, std::uint64_t count, mlxcomm_data_type type,
                   std::uint32_t destination, std::uint32_t tag = 0, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_send, input, count, type, destination, tag, timeout_ns);
  }
  void Send(const void* input, std::uint64_t count, mlxcomm_data_type type,
            std::uint32_t destination, std::uint32_t tag = 0, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_send, input, count, type, destination, tag, timeout_ns);
  }
  Ticket ReceiveAsync(void* output, std::uint64_t count, mlxcomm_data_type type,
                      std::uint32_t source, std::uint32_t tag = 0, std::uint64_t timeout_ns = 0) {
    return Begin(mlxcomm_recv, output, count, type, source, tag, timeout_ns);
  }
  void Receive(void* output, std::uint64_t count, mlxcomm_data_type type, std::uint32_t source,
               std::uint32_t tag = 0, std::uint64_t timeout_ns = 0) {
    Run(mlxcomm_recv, output, count, type, source, tag, timeout_ns);
  }
  // Any of these, for a program that chooses one at run time; struct_size is filled in here.
  Ticket Submit(mlxcomm_request request) {
    request.struct_size = sizeof request;
    return Begin(mlxcomm_submit, &request);
  }
  void CarryOut(mlxcomm_request request) {
    request.struct_size = sizeof request;
    Run(mlxcomm_submit, &request);
  }
  Ticket BarrierAsync(std::uint64_t timeout_ns = 0) { return Begin(mlxcomm_barrier, timeout_ns); }
  void Barrier(std::uint64_t timeout_ns = 0) { Run(mlxcomm_barrier, timeout_ns); }

 private:
  explicit Group(mlxcomm_group* handle) : handle_(handle) {}
  template <typename Call, typename... Arguments>
  Ticket Begin(Call call, Arguments... arguments) {
    mlxcomm_error error;
    std::uint64_t ticket = 0;
    Check(call(get(), arguments..., &ticket, &error), error);
    return {get(), ticket};
  }
  // Waits in the same call.
  template <typename Call, typename... Arguments>
  void Run(Call call, Arguments... arguments) {
    mlxcomm_error error;
    Check(call(get(), arguments..., nullptr, &error), error);
  }

  std::unique_ptr<mlxcomm_group, Closes<mlxcomm_group_close>> handle_;
};

}  // namespace mlxcomm
