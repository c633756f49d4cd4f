// Ends the loop's sleep when a socket becomes readable, or writable on request.
//
//   (closed) ──Open──▶ open ──Arm, before the sleep──▶ armed ──readable──▶ open, ready
//      ▲──────── Close: nothing is reported for this socket any more ────────┘
//
// An armed watch also reports a socket that was readable before, so a rail that arms it last misses
// nothing. The handler of a closed watch may run later, and then finds that its number has changed.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace mlxcomm::rail {

class SocketWatch {
 public:
  // Destroy it before the io_context. `retired` becomes true once that will not run any more.
  SocketWatch(asio::io_context& io, std::shared_ptr<const bool> retired)
      : descriptor_(io), retired_(std::move(retired)) {}
  ~SocketWatch() { Close(); }

  // Returns false if the system cannot watch the socket.
  bool Open(int socket);
  // Call it before the socket is closed or another thread reads it.
  void Close();
  bool is_open() const { return descriptor_.is_open() && !*retired_; }
  void Arm() { Wait(asio::posix::descriptor_base::wait_read, &State::armed); }
  bool is_armed() const { return state_->armed; }
  // Waits once until the socket is writable.
  void ArmForWriting() {
    Wait(asio::posix::descriptor_base::wait_write, &State::armed_for_writing);
  }
  // Returns once whether the socket became ready.
  bool TakeReady() { return std::exchange(state_->ready, false); }

 private:
  struct State {
    std::uint64_t number = 0;  // Counts closings.
    bool armed = false;
    bool armed_for_writing = false;
    bool ready = false;
  };
  struct Handler;
  void Wait(asio::posix::descriptor_base::wait_type what, bool State::* armed);

  asio::posix::stream_descriptor descriptor_;
  const std::shared_ptr<const bool> retired_;
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // Shared with handlers.
};

// The watches of one io_context.
class SocketWatches {
 public:
  using Handle = std::unique_ptr<SocketWatch>;

  explicit SocketWatches(asio::io_context& io) : io_(io) {}
  Handle Take() { return std::make_unique<SocketWatch>(io_, retired_); }
  // The io_context will not run any more.
  void Retire() { *retired_ = true; }

 private:
  asio::io_context& io_;
  const std::shared_ptr<bool> retired_ = std::make_shared<bool>(false);
};

}  // namespace mlxcomm::rail
