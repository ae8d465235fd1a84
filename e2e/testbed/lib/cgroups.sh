# shellcheck shell=bash
# Each node has a cgroup of its own below the root, as if it were the root of a machine: `/<cluster>-node1`.
# Version 1 has one hierarchy per controller, version 2 a single one; machines with either are in use.

cgroup_roots() {
  local root
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo /sys/fs/cgroup
  else
    for root in /sys/fs/cgroup/*/; do
      # Names such as `cpu` may be links to `cpu,cpuacct`: once is enough.
      [ -L "${root%/}" ] || [ ! -e "$root/cgroup.procs" ] || echo "${root%/}"
    done
  fi
}

cgroup_create() { # name
  local root controller file
  while read -r root; do
    if [ -e "$root/cgroup.subtree_control" ]; then
      for controller in cpu cpuset io memory pids hugetlb; do
        echo "+$controller" >"$root/cgroup.subtree_control" 2>/dev/null || true # those that this kernel has
      done
    fi
    mkdir -p "$root/$1"
    # In version 1 a new cpuset is empty, and nothing can run in it.
    for file in cpuset.cpus cpuset.mems; do
      [ ! -e "$root/cgroup.clone_children" ] || [ ! -e "$root/$file" ] || cat "$root/$file" >"$root/$1/$file"
    done
  done < <(cgroup_roots)
}

# cgroup_remove NAME: its processes are dead already, but the kernel may need a moment to let go of them
cgroup_remove() {
  local root
  while read -r root; do
    for _ in {1..40}; do
      [ -d "$root/$1" ] || break
      find "$root/$1" -depth -type d -exec rmdir {} \; 2>/dev/null || true
      [ ! -d "$root/$1" ] || sleep 0.05
    done
    [ ! -d "$root/$1" ] || say "warning: $root/$1 is still in use"
  done < <(cgroup_roots)
}

# cgroups_remove: those of all nodes this cluster ever had
cgroups_remove() {
  local root name
  while read -r root; do
    find "$root" -maxdepth 1 -type d -name "$NAME-node*" -printf '%f\n'
  done < <(cgroup_roots) | sort -u | while read -r name; do cgroup_remove "$name"; done
}
