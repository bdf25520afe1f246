"""How jobs are carried out: in processes of their own, or in this one."""
