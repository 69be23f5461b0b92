from realtime.engine.memory import free_bytes

GIB = 2**30


def lay(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MACHINE = {"proc/meminfo": f"MemTotal: {16 * GIB // 1024} kB\nMemAvailable: {8 * GIB // 1024} kB\n"}


def test_machine_without_groups_offers_what_it_has(tmp_path):
    assert free_bytes(lay(tmp_path, MACHINE)) == 8 * GIB


def test_tightest_group_on_the_way_up_decides(tmp_path):
    files = {
        "proc/self/cgroup": "0::/slice/unit\n",
        "sys/fs/cgroup/slice/unit/memory.max": "max\n",
        "sys/fs/cgroup/slice/unit/memory.current": f"{GIB}\n",
        "sys/fs/cgroup/slice/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/slice/memory.current": f"{3 * GIB}\n",
        "sys/fs/cgroup/slice/memory.stat": f"anon 5\ninactive_file {GIB}\n",
    }
    assert free_bytes(lay(tmp_path, MACHINE | files)) == 2 * GIB


def test_container_that_does_not_see_its_path_uses_the_mounted_top(tmp_path):
    files = {
        "proc/self/cgroup": "5:cpu,memory:/docker/abc\n0::/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * GIB}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
        "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GIB // 2}\n",
    }
    assert free_bytes(lay(tmp_path, MACHINE | files)) == 5 * GIB // 2


def test_unlimited_group_is_no_bound(tmp_path):
    files = {
        "proc/self/cgroup": "5:memory:/\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
    }
    assert free_bytes(lay(tmp_path, MACHINE | files)) == 8 * GIB


def test_group_over_its_limit_leaves_nothing(tmp_path):
    files = {
        "proc/self/cgroup": "0::/\n",
        "sys/fs/cgroup/memory.max": f"{GIB}\n",
        "sys/fs/cgroup/memory.current": f"{2 * GIB}\n",
    }
    assert free_bytes(lay(tmp_path, MACHINE | files)) == 0


def test_system_that_does_not_say_is_no_bound(tmp_path):
    assert free_bytes(tmp_path) is None
