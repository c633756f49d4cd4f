#include "client/mlx/joining.h"

#include "client/lib/interrupt.h"
#include "client/mlx/result_memory.h"

namespace mlxcomm::graph {

mlxcomm_code JoinJob(const std::string& job, std::uint32_t rank, std::uint32_t size,
                     const JoinOptions& options, std::shared_ptr<DaemonGroup>& joined,
                     mlxcomm_error& error) {
  CopyingIsAskedFor();
  const client::UnderWay under_way;
  mlxcomm_connect_options connecting;
  mlxcomm_connect_options_init(&connecting);
  if (!options.socket.empty()) connecting.socket_path = options.socket.c_str();
  connecting.arena_bytes = options.arena_bytes;
  connecting.interrupted = client::WasInterrupted;
  mlxcomm_connection* connection = nullptr;
  mlxcomm_code code = mlxcomm_connect(&connecting, &connection, &error);
  if (code != MLXCOMM_OK) return code;
  const auto connected = std::make_shared<Connected>(connection);
  mlxcomm_group* group = nullptr;
  code = mlxcomm_join(connection, job.c_str(), rank, size, options.timeout_ns, &group, &error);
  if (code == MLXCOMM_OK) {
    joined = std::make_shared<DaemonGroup>(std::make_shared<JoinedGroup>(connected, group));
  }
  return code;
}

}  // namespace mlxcomm::graph
