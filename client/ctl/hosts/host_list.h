// Fills those messages of ctl.proto that begin like MLX's host file: backend, envs, hosts.
#pragma once

#include "client/ctl/hosts/hostfile.h"
#include "mlxcomm/v1/ctl.pb.h"

namespace mlxcomm::ctl {

inline void FillHost(const HostEntry& entry, v1::Host& host) {
  host.set_ssh(entry.name);
  host.mutable_ips()->Assign(entry.ips.begin(), entry.ips.end());
  for (const std::vector<std::string>& devices : entry.rdma) {
    google::protobuf::Value& towards = *host.add_rdma();
    towards.set_null_value(google::protobuf::NULL_VALUE);
    if (devices.size() == 1) towards.set_string_value(devices[0]);
    if (devices.size() < 2) continue;
    for (const std::string& device : devices)
      towards.mutable_list_value()->add_values()->set_string_value(device);
  }
  if (entry.slots != 1) host.set_slots(entry.slots);
}

template <typename List>
void FillHosts(const Hostfile& file, List& list) {
  list.set_backend(file.backend);
  list.mutable_envs()->Assign(file.envs.begin(), file.envs.end());
  for (const HostEntry& entry : file.hosts) FillHost(entry, *list.add_hosts());
}

}  // namespace mlxcomm::ctl
