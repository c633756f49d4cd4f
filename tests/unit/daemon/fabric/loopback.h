// Fabrics in one process, joined over loopback: their reports, messages and data between them, and
// cables that can be cut.
//
// Owner: a test. Thread: its own; fabrics on other io_contexts run there as well. Memory: all
// reports are kept.
#pragma once

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/fabric/tcp_fabric.h"
#include "tests/unit/daemon/link/link_events.h"

namespace mlxcomm::fabric {

// A daemon's fabric and its reports.
struct Node : link::LinkEvents {
  explicit Node(
      asio::io_context& context, const std::string& name, std::uint8_t id,
      std::vector<std::string> connect = {}, std::uint8_t key = 7,
      const std::function<void(link::FabricOptions&)>& change = [](link::FabricOptions&) {},
      const SideRailsMaker& side_rails = {});
  // Ends in the order of a daemon.
  ~Node() override;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  std::string address(std::size_t which = 0) const { return fabric->listening().at(which); }

  asio::io_context& io;
  link::FabricOptions options;
  std::unique_ptr<Links> links;
  std::unique_ptr<TcpFabric> fabric;
};

class FabricTest : public testing::Test {
 protected:
  // Runs until the condition holds; gives up after a minute.
  bool RunUntil(const std::vector<Node*>& nodes, const std::function<bool()>& condition);
  absl::Status SendText(Node& from, const Node& to, const std::string& text);
  // Sends chunks to the other node's posted receive.
  void SendChunks(
      Node& from, Node& to, std::span<const std::byte> source, std::vector<std::byte>& target,
      std::uint64_t chunk = 256 * 1024,
      const std::function<void(rail::PostedReceive&)>& change = [](rail::PostedReceive&) {});
  static std::vector<std::byte> Pattern(std::size_t bytes) {
    std::vector<std::byte> pattern(bytes);
    for (std::size_t i = 0; i < bytes; ++i) pattern[i] = static_cast<std::byte>(i * 7 >> 3);
    return pattern;
  }

  asio::io_context io;
  bool idle = false;  // Turns like a loop that would sleep.
};

// A cable between two fabrics that a test can cut: forwards bytes both ways. While it is cut, a
// dialer gets no answer.
class LoopbackCable {
 public:
  LoopbackCable(asio::io_context& io, const std::string& to, bool in = true);
  ~LoopbackCable();
  std::string address() const;
  std::uint64_t carried() const;
  void PlugIn();
  // Half-open: drops what the dialed side sends; the rest passes, also its end. A dialer gets no
  // answer.
  void Mute();
  void PullOut();
  // Flips one bit of the next bytes.
  void Garble();

 private:
  class Forwarder;  // Its sockets take a long time to compile.
  std::unique_ptr<Forwarder> forwarder_;
};

}  // namespace mlxcomm::fabric
