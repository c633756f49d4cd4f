// The extension mlxcomm._mlxcomm: joining, failures as Python sees them, counters.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "client/lib/mlxcomm.hpp"
#include "client/python/src/group_impl.h"
#include "client/python/src/interrupt.h"
#include "mlx/distributed/distributed.h"
#include "mlx/version.h"

namespace nb = nanobind;
using mlx::core::distributed::Group;
using mlxcomm::python::AloneGroup;
using mlxcomm::python::Connected;
using mlxcomm::python::DaemonGroup;
using mlxcomm::python::JoinedGroup;

namespace {

DaemonGroup* OursOrNull(const Group& group) {
  return dynamic_cast<DaemonGroup*>(group.raw_group().get());
}

nb::tuple Describe(mlxcomm_code code, const mlxcomm_error& error) {
  return nb::make_tuple(static_cast<int>(code), std::string(mlxcomm_code_name(code)), error.rank,
                        std::string(code == MLXCOMM_OK ? "" : error.message));
}

// (group, None), or (None, failure): Python raises its own exception class.
nb::tuple Join(const std::string& job, unsigned rank, unsigned size, const std::string& socket,
               unsigned long long timeout_ns, unsigned long long arena_bytes) {
  mlxcomm::python::WatchInterrupts();
  mlxcomm::python::ForgetInterrupt();
  mlxcomm_connect_options options;
  mlxcomm_connect_options_init(&options);
  if (!socket.empty()) options.socket_path = socket.c_str();
  options.arena_bytes = arena_bytes;
  options.interrupted = mlxcomm::python::WasInterrupted;
  mlxcomm_error error{};
  mlxcomm_connection* connection = nullptr;
  mlxcomm_group* group = nullptr;
  std::shared_ptr<Connected> connected;
  mlxcomm_code code;
  {
    nb::gil_scoped_release unlocked;
    code = mlxcomm_connect(&options, &connection, &error);
    if (code == MLXCOMM_OK) {
      connected = std::make_shared<Connected>(connection);
      code = mlxcomm_join(connection, job.c_str(), rank, size, timeout_ns, &group, &error);
    }
  }
  if (code != MLXCOMM_OK) return nb::make_tuple(nb::none(), Describe(code, error));
  auto joined = std::make_shared<JoinedGroup>(connected, group, job);
  return nb::make_tuple(Group(std::make_shared<DaemonGroup>(joined)), nb::none());
}

}  // namespace

NB_MODULE(_mlxcomm, m) {
  nb::module_::import_("mlx.core");  // Its types must be registered first.
  m.attr("built_for") = std::to_string(MLX_VERSION_MAJOR) + "." +
                        std::to_string(MLX_VERSION_MINOR) + "." +
                        std::to_string(MLX_VERSION_PATCH);
  m.attr("version") = mlxcomm_version();
  m.def("join", &Join);
  m.def("alone", [] { return Group(std::make_shared<AloneGroup>()); });
  m.def("is_ours", [](const Group& group) { return OursOrNull(group) != nullptr; });
  m.def("failure", [](const Group& group) {
    mlxcomm_error error{};
    DaemonGroup* const ours = OursOrNull(group);
    const mlxcomm_code code =
        ours == nullptr ? MLXCOMM_OK : mlxcomm_group_failure(ours->handle(), &error);
    return Describe(code, error);
  });
  m.def("barrier", [](const Group& group) {
    DaemonGroup* const ours = OursOrNull(group);
    mlxcomm_error error{};
    mlxcomm_code code = MLXCOMM_OK;
    if (ours != nullptr) {
      nb::gil_scoped_release unlocked;
      code = ours->Barrier(error);
    }
    return Describe(code, error);
  });
  m.def("forget_interrupt", &mlxcomm::python::ForgetInterrupt);
  m.def("counters", [] {
    const auto& counters = mlxcomm::python::GetCounters();
    nb::dict out;
    out["operations"] = counters.operations.load();
    out["inputs_copied"] = counters.inputs_copied.load();
    out["inputs_in_arena"] = counters.inputs_in_arena.load();
    return out;
  });
}
