// Trials that call verbs directly.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "daemon/rdma/trials.h"
#include "daemon/rdma/verbs_device.h"

namespace mlxcomm::rdma {
namespace {

absl::Status Failed(const char* what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

absl::StatusOr<std::shared_ptr<VerbsDevice>> OpenVerbs(const TrialSubject& subject) {
  const auto device = OpenDevice(subject.library, subject.device, subject.limits);
  if (!device.ok()) return device.status();
  return std::static_pointer_cast<VerbsDevice>(*device);
}

std::string DescribePort(const VerbsDevice& device, std::uint8_t number) {
  ibv_port_attr port{};
  if (device.verbs().query_port(device.context(), number, &port) != 0) {
    return absl::StrCat("; port ", number, " cannot be queried");
  }
  std::string text = absl::StrCat(
      "; port ", number, ": state ", static_cast<int>(port.state),
      port.state == IBV_PORT_ACTIVE ? " (active)" : "", ", max_mtu ", 128 << port.max_mtu,
      ", active_mtu ", 128 << port.active_mtu, ", lid ", port.lid, ", active_width ",
      static_cast<int>(port.active_width), ", active_speed ", static_cast<int>(port.active_speed),
      ", max_msg_sz ", port.max_msg_sz, ", gid_tbl_len ", port.gid_tbl_len);
  for (const auto& [index, gid] : ListGids(device.verbs(), device.context(), {number, port, ""})) {
    absl::StrAppend(&text, ", GID ", index, " ", GidText(gid));
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> DescribeDevice(const TrialSubject& subject) {
  const auto opened = OpenVerbs(subject);
  if (!opened.ok()) return opened.status();
  const VerbsDevice& device = **opened;
  ibv_device_attr its{};
  const int error = device.verbs().query_device(device.context(), &its);
  if (error != 0) return Failed("it cannot be queried", error);
  its.fw_ver[sizeof its.fw_ver - 1] = '\0';
  std::string text = absl::StrCat(
      "firmware \"", its.fw_ver, "\", max_qp ", its.max_qp, ", max_qp_wr ", its.max_qp_wr,
      ", max_sge ", its.max_sge, ", max_cq ", its.max_cq, ", max_cqe ", its.max_cqe, ", max_mr ",
      its.max_mr, ", max_mr_size ", its.max_mr_size, ", max_pd ", its.max_pd, ", page_size_cap ",
      its.page_size_cap, ", phys_port_cnt ", static_cast<int>(its.phys_port_cnt));
  const int ports = std::min<int>(its.phys_port_cnt, 8);
  for (int number = 1; number <= ports; ++number) {
    text += DescribePort(device, static_cast<std::uint8_t>(number));
  }
  return text;
}

absl::StatusOr<std::string> TryDepth(const TrialSubject& subject) {
  const auto opened = OpenVerbs(subject);
  if (!opened.ok()) return opened.status();
  const VerbsDevice& device = **opened;
  const std::uint32_t wanted = std::min(subject.limits.frames_max, apple::kFramesMax);
  ibv_cq* const queue =
      device.verbs().create_cq(device.context(), static_cast<int>(2 * wanted), nullptr, nullptr, 0);
  if (queue == nullptr) return Failed("it created no completion queue", errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = queue;
  attributes.qp_type = subject.limits.service == Service::kReliable ? IBV_QPT_RC : IBV_QPT_UC;
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = wanted;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = apple::kEntriesMax;
  ibv_qp* const pair = device.verbs().create_qp(device.domain(), &attributes);
  absl::StatusOr<std::string> reported = Failed("it created no queue pair", errno);
  if (pair != nullptr) {
    ibv_qp_attr now{};
    ibv_qp_init_attr granted{};
    const int error = device.verbs().query_qp(pair, &now, IBV_QP_CAP, &granted);
    reported = absl::StrCat(
        "of ", wanted, " requested, ibv_create_qp returned ", attributes.cap.max_send_wr, " and ",
        attributes.cap.max_recv_wr, ", ibv_query_qp ",
        error != 0 ? std::string(std::strerror(error))
                   : absl::StrCat(granted.cap.max_send_wr, " and ", granted.cap.max_recv_wr));
    device.verbs().destroy_qp(pair);
  }
  device.verbs().destroy_cq(queue);
  return reported;
}

}  // namespace mlxcomm::rdma
