// A rank that has joined, with a daemon whose moves the test makes, seen through the C interface.
//
// Owner: the test. Thread: the test's. Memory: as FakeDaemon.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "client/lib/mlxcomm.h"
#include "client/lib/private_daemon.h"
#include "tests/unit/client/lib/fake_attach.h"
#include "tests/unit/client/lib/fake_daemon.h"

namespace mlxcomm::client {

inline mlxcomm_code Connect(const FakeDaemon& daemon, mlxcomm_connection*& connection,
                            mlxcomm_error& error, std::atomic<bool>* interrupt = nullptr) {
  const std::string path = daemon.socket_path();
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  options.socket_path = path.c_str();
  options.interrupted_context = interrupt;
  if (interrupt != nullptr) {
    options.interrupted = [](void* flag) {
      return static_cast<std::atomic<bool>*>(flag)->load() ? 1 : 0;
    };
  }
  return mlxcomm_connect(&options, &connection, &error);
}

class SessionTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kWorld = 7;  // The same as in the fake module.

  SessionTest(std::uint32_t rank, std::uint32_t size) : attach(FakeAttach::Of(LibraryFolder())) {
    attach.Reset();
    daemon.Welcome();
    EXPECT_EQ(Connect(daemon, connection, error, &interrupt), MLXCOMM_OK) << error.message;
    daemon.Connected();
    EXPECT_TRUE(Ok(mlxcomm_join(connection, "job", rank, size, 0, &group, &error)));
  }
  ~SessionTest() override {
    mlxcomm_group_close(group);
    mlxcomm_disconnect(connection);
    attach.Reset();
  }
  // Returns whether a call that was given `error` has succeeded.
  testing::AssertionResult Ok(mlxcomm_code code) const {
    if (code == MLXCOMM_OK) return testing::AssertionSuccess();
    return testing::AssertionFailure() << mlxcomm_code_name(code) << ": " << error.message;
  }
  template <typename T = float>
  T* Allocate(std::uint64_t bytes) {
    void* buffer = nullptr;
    EXPECT_TRUE(Ok(mlxcomm_buffer_allocate(connection, bytes, &buffer, &error)));
    return static_cast<T*>(buffer);
  }
  mlxcomm_code Reduce(float* buffer, std::uint64_t count, std::uint64_t& ticket) {
    return mlxcomm_all_reduce(group, buffer, buffer, count, MLXCOMM_FLOAT32, MLXCOMM_SUM, 0,
                              &ticket, &error);
  }
  std::uint64_t Barrier(mlxcomm_group* of) {
    std::uint64_t ticket = 0;
    EXPECT_EQ(mlxcomm_barrier(of, 0, &ticket, &error), MLXCOMM_OK) << error.message;
    return ticket;
  }
  std::uint64_t Barrier() { return Barrier(group); }
  mlxcomm_code Wait(std::uint64_t ticket) { return mlxcomm_wait(group, ticket, &error); }
  std::uint64_t OffsetOf(const void* data) {
    return static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_start());
  }
  // The arena's start, where the first range of the fixture lies.
  std::byte* arena_start() {
    if (start_ == nullptr) {
      start_ = Allocate<std::byte>(1);
      mlxcomm_buffer_free(connection, start_);
    }
    return start_;
  }

  FakeAttach& attach;
  FakeDaemon daemon;
  std::atomic<bool> interrupt{false};
  mlxcomm_connection* connection = nullptr;
  mlxcomm_group* group = nullptr;
  mlxcomm_error error{};

 private:
  std::byte* start_ = nullptr;
};

}  // namespace mlxcomm::client
