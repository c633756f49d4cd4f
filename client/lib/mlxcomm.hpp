// mlxcomm.hpp: a C++20 face of mlxcomm.h. Header-only; errors are exceptions.
//
// Owner: Connection, Group, Buffer and Ticket own their C handles and move, never
// copy. A Group and Buffers must go before their Connection. Thread: as mlxcomm.h.
// Memory: none of its own; Buffers are ranges of the arena.
#pragma once

#include <cstddef>
#include <cstdint>
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

class Connection {
 public:
  explicit Connection(const mlxcomm_connect_options& options) {
    mlxcomm_error error;
    Check(mlxcomm_connect(&options, &handle_, &error), error);
  }
  Connection(Connection&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Connection& operator=(Connection&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Connection() {
    if (handle_ != nullptr) mlxcomm_disconnect(handle_);
  }
  mlxcomm_connection* get() const { return handle_; }

 private:
  mlxcomm_connection* handle_ = nullptr;
};

// `bytes` of the arena, page-aligned.
class Buffer {
 public:
  Buffer(Connection& connection, std::uint64_t bytes) : connection_(connection.get()) {
    mlxcomm_error error;
    Check(mlxcomm_buffer_allocate(connection_, bytes, &data_, &error), error);
  }
  Buffer(Buffer&& other) noexcept
      : connection_(other.connection_), data_(std::exchange(other.data_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(connection_, other.connection_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) mlxcomm_buffer_free(connection_, data_);
  }
  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  mlxcomm_connection* connection_ = nullptr;
  void* data_ = nullptr;
};

class Group {
 public:
  Group(Connection& connection, const std::string& job, std::uint32_t rank, std::uint32_t size,
        std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    Check(mlxcomm_join(connection.get(), job.c_str(), rank, size, timeout_ns, &handle_, &error),
          error);
  }
  Group(Group&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Group& operator=(Group&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Group() {
    if (handle_ != nullptr) mlxcomm_group_close(handle_);
  }
  mlxcomm_group* get() const { return handle_; }
  std::uint32_t rank() const { return mlxcomm_rank(handle_); }
  std::uint32_t size() const { return mlxcomm_size(handle_); }

  // Blocking forms; see mlxcomm.h for shapes.
  void AllReduce(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                 std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    std::uint64_t ticket = 0;
    Check(mlxcomm_all_reduce(handle_, input, output, count, type, MLXCOMM_SUM, timeout_ns, &ticket,
                             &error),
          error);
    Wait(ticket);
  }
  void AllGather(const void* input, void* output, std::uint64_t count, mlxcomm_data_type type,
                 std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    std::uint64_t ticket = 0;
    Check(mlxcomm_all_gather(handle_, input, output, count, type, timeout_ns, &ticket, &error),
          error);
    Wait(ticket);
  }
  void Send(const void* input, std::uint64_t count, mlxcomm_data_type type,
            std::uint32_t destination, std::uint32_t tag = 0, std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    std::uint64_t ticket = 0;
    Check(mlxcomm_send(handle_, input, count, type, destination, tag, timeout_ns, &ticket, &error),
          error);
    Wait(ticket);
  }
  void Receive(void* output, std::uint64_t count, mlxcomm_data_type type, std::uint32_t source,
               std::uint32_t tag = 0, std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    std::uint64_t ticket = 0;
    Check(mlxcomm_recv(handle_, output, count, type, source, tag, timeout_ns, &ticket, &error),
          error);
    Wait(ticket);
  }
  void Barrier(std::uint64_t timeout_ns = 0) {
    mlxcomm_error error;
    std::uint64_t ticket = 0;
    Check(mlxcomm_barrier(handle_, timeout_ns, &ticket, &error), error);
    Wait(ticket);
  }
  void Wait(std::uint64_t ticket) {
    mlxcomm_error error;
    Check(mlxcomm_wait(handle_, ticket, &error), error);
  }

 private:
  mlxcomm_group* handle_ = nullptr;
};

}  // namespace mlxcomm
