// The half of Engine that asks other nodes for pings and check-ups, and answers them.
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/engine.h"
#include "daemon/platform/interfaces.h"
#include "daemon/platform/machine.h"
#include "daemon/platform/system_facts.h"

namespace mlxcomm {

PeerProbes::Clocks Engine::ClocksNow() { return {platform::MonotonicNow(), platform::UnixNow()}; }

void Engine::Ping(const v1::PingRequest& request, std::unique_ptr<control::PingAnswer> answer) {
  Ask(std::move(answer), [this, request](std::unique_ptr<control::PingAnswer> held) {
    BeginPing(request, std::move(held));
  });
}

void Engine::Doctor(std::unique_ptr<control::DoctorAnswer> answer) {
  Ask(std::move(answer),
      [this](std::unique_ptr<control::DoctorAnswer> held) { BeginDoctor(std::move(held)); });
}

void Engine::BeginPing(const v1::PingRequest& request,
                       std::unique_ptr<control::PingAnswer> answer) {
  std::string known;
  for (const auto& [id, node] : nodes_) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", node.name);
    if (node.name != request.node() && id.ToString() != request.node()) continue;
    v1::NodeStatus links;
    AddLinks(links);
    v1::LinkStatus way;
    for (const v1::LinkStatus& link : links.links()) {
      if (link.peer() == node.name) way = link;
    }
    return probes_.Ping({id, node.name, node.software_version}, request, std::move(way),
                        ClocksNow(), std::move(answer));
  }
  answer->Fail({FailureCode::kInvalidArgument, kNoRank,
                absl::StrCat("no node \"", request.node(), "\" can be reached from ",
                             options_.self.name, "; there ", nodes_.size() == 1 ? "is " : "are ",
                             known.empty() ? "none" : known)});
}

void Engine::BeginDoctor(std::unique_ptr<control::DoctorAnswer> answer) {
  v1::DoctorReply reply;
  reply.set_node(options_.self.name);
  reply.set_cluster(options_.cluster);
  v1::NodeCheckup& own = *reply.add_nodes();
  FillCheckup(own);
  own.set_answered(true);
  std::vector<PeerProbes::Named> nodes;
  for (const auto& [id, node] : nodes_) nodes.push_back({id, node.name, node.software_version});
  probes_.Checkup(nodes, std::move(reply), ClocksNow(), std::move(answer));
}

void Engine::FillCheckup(v1::NodeCheckup& checkup) {
  if (system_seen_ns_ == 0 || now_ns_ - system_seen_ns_ >= kSystemKeptNs) LookAtSystem();
  checkup = seen_of_system_;
  checkup.set_unix_ns(platform::UnixNow());
}

void Engine::LookAtSystem() {
  system_seen_ns_ = now_ns_;
  v1::NodeCheckup& checkup = seen_of_system_;
  checkup.Clear();
  checkup.set_name(options_.self.name);
  checkup.set_version(options_.self.software_version);
  checkup.set_system(platform::SystemName());
  checkup.set_open_files_max(platform::OpenFilesMax());
  checkup.set_open_files(platform::OpenFiles());
  checkup.set_locked_bytes_max(platform::LockedBytesMax());
  checkup.set_key_file(options_.key_file);
  checkup.set_config_file(options_.config_file);
  for (const std::string& address : fabric_->listening()) checkup.add_listening(address);
  if (const auto interfaces = platform::ListInterfaces(); interfaces.ok()) {
    for (const platform::NetworkInterface& found : *interfaces) {
      v1::InterfaceCheckup& told = *checkup.add_interfaces();
      told.set_name(found.name);
      told.set_running(found.running);
      told.set_loopback(found.loopback);
      told.set_mtu(platform::InterfaceMtu(found.name));
      for (const std::string& address : found.addresses) told.add_addresses(address);
    }
  }
}

void Engine::OnProbe(const NodeId& node, const v1::Probe& probe) {
  if (!PeerProbes::IsFine(probe)) return CountViolation(node, false);
  v1::PeerMessage message;
  v1::ProbeAnswer& answer = *message.mutable_probe_answer();
  answer.set_query(probe.query());
  answer.set_payload(probe.payload());
  if (probe.checkup()) FillCheckup(*answer.mutable_checkup());
  SendToNode(node, message);
}

}  // namespace mlxcomm
