// Ends the loop's sleep when a socket becomes readable, or writable on request.
//
//   (closed) ──Open──▶ open ──Arm, before the sleep──▶ armed ──readable──▶ open, ready
//      ▲──────── Close: nothing is reported for this socket any more ────────┘
//
// An armed watch also reports a socket that was readable before, so a rail that arms it last misses
// nothing. The handler of a closed watch runs later and finds that its number has changed.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace mlxcomm::rail {

class SocketWatch {
 public:
  explicit SocketWatch(asio::io_context& io) : descriptor_(io) {}
  ~SocketWatch() { Close(); }

  // Returns false if the system cannot watch the socket.
  bool Open(int socket);
  // Call it before the socket is closed or another thread reads it.
  void Close();
  bool is_open() const { return open_; }
  void Arm();
  bool is_armed() const { return armed_; }
  // Waits once until the socket is writable.
  void ArmForWriting();
  // Returns once whether the socket became ready.
  bool TakeReady() { return std::exchange(ready_, false); }

 private:
  friend class SocketWatches;
  struct Handler;
  void Wait(asio::posix::descriptor_base::wait_type what, bool& armed);

  asio::posix::stream_descriptor descriptor_;
  std::uint64_t number_ = 0;  // Counts openings.
  bool open_ = false;
  bool armed_ = false;
  bool armed_for_writing_ = false;
  bool ready_ = false;
  bool retired_ = false;
};

class SocketWatches {
 public:
  struct GiveBack {
    SocketWatches* pool = nullptr;
    void operator()(SocketWatch* watch) const { pool->TakeBack(*watch); }
  };
  using Handle = std::unique_ptr<SocketWatch, GiveBack>;

  explicit SocketWatches(asio::io_context& io) : io_(io) {}
  Handle Take();  // Destroy the handle before the pool.
  // The io_context will not run any more.
  void Retire();

 private:
  void TakeBack(SocketWatch& watch);

  asio::io_context& io_;
  std::vector<std::unique_ptr<SocketWatch>> all_;
  std::vector<SocketWatch*> free_;
  bool retired_ = false;
};

}  // namespace mlxcomm::rail
